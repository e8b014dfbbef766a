"""A trainer and rollouts: every bit the same, and what the calls say."""

import asyncio
import contextlib
import json
import pickle
import subprocess
import sys
import unittest
import weakref

import numpy as np

import support
import weft_fabric as weft
from support import BOUND, arrays, change, pair, quiet, same, site, take, weights
from weft_fabric import _library


class Identity(unittest.TestCase):
    def test_versions_are_bit_identical(self):
        trained, served = weights(), weights()
        with pair(trained, served) as (trainer, rollout):
            for version in (1, 2, 5, 6):
                change(trained, version)
                self.assertFalse(same(trained, served))
                update = trainer.publish(version)
                self.assertEqual(
                    (update.target.number, update.elements), (version, sum(a.size for a in arrays(trained).values()))
                )
                staged = rollout.staged(timeout=BOUND)
                self.assertEqual((staged.version, staged.kind, staged.changed), (version, "update", update.changed))
                self.assertFalse(same(trained, served), "nothing is written before commit")
                held = rollout.commit(staged.version)
                self.assertTrue(same(trained, served))
                self.assertEqual(held, trainer.held)
                self.assertEqual(held.root, weft.digest(served))
                trainer.wait(version, ["a"], timeout=BOUND)

    def test_weights_change_once_they_are_free(self):
        trained, served, published = weights(), weights(), {}

        def change_now():
            published.update({name: array.copy() for name, array in arrays(trained).items()})
            change(trained, 9)
            raise KeyError("of this test")

        with pair(trained, served) as (trainer, rollout):
            change(trained, 1)
            with self.assertRaisesRegex(KeyError, "of this test"):
                trainer.publish(1, weights_free=change_now)
            self.assertEqual(take(rollout, 1), trainer.held)
            self.assertTrue(same(published, served))
            self.assertFalse(same(trained, served))
            asyncio.run(trainer.publish_async(2, weights_free=lambda: published.clear()))
            self.assertEqual(take(rollout, 2), trainer.held)
            self.assertTrue(same(trained, served))
            self.assertEqual(published, {})

    def test_another_order_of_the_same_tensors(self):
        trained, served = weights(), dict(reversed(weights(1).items()))
        ours, theirs = weft.Layout(served), weft.Layout(trained)
        self.assertNotEqual(ours, theirs)
        self.assertEqual(ours.match(theirs), tuple(reversed(range(len(ours)))))
        with pair(trained, served) as (trainer, rollout):
            for version in (1, 2):
                change(trained, version)
                trainer.publish(version)
                self.assertEqual(take(rollout, version), trainer.held)
                self.assertTrue(same(trained, served))

    def test_other_tensors_are_named(self):
        trained = {"model.embed": np.zeros((8, 4), np.float32), "model.norm": np.ones(4, np.float32)}
        served = {name.removeprefix("model."): array.copy() for name, array in trained.items()}
        words = "2 names of the trainer have 'model.' in front of those of a, as 'model.embed'"
        lines = []
        with weft.Trainer(site(), trained, log=lambda level, line: lines.append(line)) as trainer:
            rollout = weft.Rollout(site(trainer), "a", served, log=quiet)
            with rollout, self.assertRaises(weft.PeerError) as caught:
                rollout.staged(timeout=BOUND)
        self.assertIn(words, str(caught.exception))
        self.assertTrue([line for line in lines if "refused: a has another layout: " + words in line], lines)
        with self.assertRaises(weft.CallError) as caught:
            weft.Layout(trained).match(weft.Layout(served))
        self.assertIn("2 names of the layout have 'model.' in front of those of the other", str(caught.exception))

    def test_ranks_that_take_their_boxes(self):
        rolls = np.random.default_rng(5)
        trained = {name: rolls.random(shape, np.float32) for name, shape in (("q", (8, 6)), ("o", (6, 8)), ("n", (6,)))}
        cuts = {"cut__q__tensors": "q", "cut__q__rows": "2", "cut__o__tensors": "o", "cut__o__columns": "2"}
        layout = weft.Layout(trained)
        at = [layout.index[name] for name in ("q", "o", "n")]

        def rank(r, o, strides):
            own = {"q": np.zeros((4, 6), np.float32), "o": o, "n": np.zeros(6, np.float32)}
            where = [array.ctypes.data for array in own.values()]
            return own, weft.Blocks(
                at, [4 * r, 0, 0], [4, 6, 1], [0, 4 * r, 0], [6, 4, 6], where,
                row_strides=strides[0], column_strides=strides[1], keep=own,
            )  # fmt: skip

        plain = (None, None)
        turned = ([[[0, 0]], [[6, 4]], [[0, 0]]], [[[0, 0]], [[4, 24]], [[0, 0]]])  # o is stored by columns
        ranks = [rank(0, np.zeros((6, 4), np.float32), plain), rank(1, np.zeros((4, 6), np.float32), turned)]
        with weft.Trainer(site(**cuts), trained, log=quiet) as trainer, contextlib.ExitStack() as stack:
            ends = [
                stack.enter_context(
                    weft.Rollout(site(trainer, **cuts), name, blocks, layout=layout, view=True, empty=True, log=quiet)
                )
                for name, (_, blocks) in zip("ab", ranks)
            ]
            for version in (1, 2):
                change(trained, version)
                trainer.publish(version)
                held = [take(end, version).root for end in ends]
                self.assertNotEqual(*held)
                for r, (own, _) in enumerate(ranks):
                    o = own["o"].T if r else own["o"]
                    self.assertTrue(np.array_equal(own["q"], trained["q"][4 * r : 4 * r + 4]))
                    self.assertTrue(np.array_equal(o, trained["o"][:, 4 * r : 4 * r + 4]))
                    self.assertTrue(np.array_equal(own["n"], trained["n"]))
            with self.assertRaises(weft.CallError) as caught:
                weft.Rollout(site(trainer), "a", ranks[0][1], layout=layout, view=True, log=quiet)
            self.assertIn("a part of key", str(caught.exception))
            with self.assertRaises(weft.CallError):
                weft.Rollout(site(trainer), "a", trained, view=True)

    def test_sources(self):
        """Two trainers have rows each, and the weights move when both have published."""
        trained = {"q": np.zeros((8, 4), np.float32), "n": np.zeros(6, np.float32)}
        served = {name: np.zeros_like(array) for name, array in trained.items()}
        layout = weft.Layout(trained)

        def rows(r):
            at = [0] if r else [0, 1]  # the second source has no part of n
            own = trained["q"][4 * r : 4 * r + 4]
            where = [own.ctypes.data] + ([] if r else [trained["n"].ctypes.data])
            return weft.Blocks(at, [4 * r, 0][: len(at)], [4, 1][: len(at)], 0, [4, 6][: len(at)], where, keep=trained)

        parts = [rows(0), rows(1)]
        with contextlib.ExitStack() as stack:
            trainers = [
                stack.enter_context(weft.Trainer(site(), part, layout=layout, holding=True, run=9, log=quiet))
                for part in parts
            ]
            sources = [(trainer.stats().listen, part) for trainer, part in zip(trainers, parts)]
            rollout = stack.enter_context(weft.Rollout(site(), "a", served, sources=sources, log=quiet))
            for version in (1, 2):
                change(trained, version)
                trainers[1].publish(version)
                self.assertIsNone(rollout.staged(timeout=0.1))
                trainers[0].publish(version)
                self.assertEqual(take(rollout, version).number, version)
                self.assertTrue(same(trained, served))
            self.assertEqual([peer.name for peer in rollout.peers()], ["source 0", "source 1"])
            with self.assertRaises(weft.CallError) as caught:
                weft.Rollout(site(), "b", served, sources=sources[:1], log=quiet)
            self.assertIn("no source", str(caught.exception))
        with self.assertRaises(weft.CallError):
            weft.Trainer(site(), trained, holding=True)

    def test_versions_by_name(self):
        trained, served = weights(), weights()
        with weft.Trainer(site(), trained, log=quiet) as trainer:
            with weft.Rollout(site(trainer), "a", served, wants=True, log=quiet) as rollout:
                self.assertEqual(rollout.offered(timeout=BOUND), 0)
                self.assertIsNone(rollout.offered(0, timeout=0.05))
                for version in (3, 5, 6):
                    change(trained, version)
                    trainer.publish(version)
                self.assertEqual(rollout.offered(5, timeout=BOUND), 6)
                self.assertIsNone(rollout.staged(timeout=0.05))
                rollout.want(4)
                with self.assertRaises(weft.VersionError) as caught:
                    rollout.staged(timeout=BOUND)
                self.assertIn("near are version 3 below and 5 above", str(caught.exception))
                rollout.want(6)
                staged = rollout.staged(timeout=BOUND)
                self.assertEqual((staged.version, staged.base.number), (6, 0))
                self.assertEqual(rollout.commit(staged), trainer.held)
                self.assertTrue(same(trained, served))
        with pair(trained, served) as (_, rollout):
            with self.assertRaises(weft.CallError):
                rollout.want(7)

    def test_a_commit_that_is_held(self):
        trained, served = weights(), weights()
        with pair(trained, served) as (trainer, rollout):
            with self.assertRaises(weft.CallError):
                rollout.settle(True)
            change(trained, 1)
            trainer.publish(1)
            staged = rollout.staged(timeout=BOUND)
            old, before = rollout.held, weights()  # joined, so held by the trainer's name
            self.assertEqual(rollout.commit(staged, hold=True), old)
            self.assertTrue(same(trained, served))
            self.assertEqual(rollout.settle(False), old)
            self.assertTrue(same(before, served))
            rollout.commit(staged, hold=True)
            with self.assertRaises(weft.CallError):
                rollout.commit(staged)
            self.assertEqual(rollout.settle(True), trainer.held)
            self.assertTrue(same(trained, served))
            change(trained, 2)
            trainer.publish(2)
            old = rollout.held
            self.assertEqual(rollout.commit(rollout.staged(timeout=BOUND), queue=True), old)
            self.assertEqual(rollout.held, old)
            self.assertEqual(rollout.settle(True), trainer.held)
            self.assertTrue(same(trained, served))

    @unittest.skipUnless(support.FABRIC, "this build knows no libfabric")
    def test_over_libfabric_between_two_processes(self):
        trained = weights()
        code = """
import sys, json, support, weft_fabric as weft
served = support.weights()
with weft.Rollout(support.site(provider="tcp", trainer__listen=sys.argv[1]), "b", served, log=support.quiet) as rollout:
    print(json.dumps({"root": support.take(rollout, 3).root, "digest": weft.digest(served)}))
"""
        with weft.Trainer(site(provider="tcp"), trained, log=quiet) as trainer:
            child = subprocess.Popen(
                [sys.executable, "-B", "-c", code, trainer.stats().listen],
                stdout=subprocess.PIPE,
                cwd=support.ROOT / "python" / "tests",
            )
            for version in (1, 2, 3):
                change(trained, version)
                trainer.publish(version)
            said = json.loads(child.communicate(timeout=BOUND)[0])
            self.assertEqual(child.returncode, 0)
            self.assertEqual(said, {"root": trainer.held.root, "digest": weft.digest(trained)})

    def test_a_rollout_that_knows_nothing(self):
        trained = weights(3)
        with weft.Trainer(site(), trained, first_version=7, attachment=b"header", log=quiet) as trainer:
            layout = weft.Layout.fetch(site(trainer), "b", timeout=BOUND)
            self.assertEqual(layout, trainer.layout)
            served = layout.empty()
            with weft.Rollout(site(trainer), "b", served, layout=layout, empty=True, log=quiet) as rollout:
                self.assertIsNone(rollout.held)
                staged = rollout.staged(timeout=BOUND)
                self.assertEqual((staged.kind, staged.version), ("snapshot", 7))
                self.assertEqual(rollout.commit(staged), trainer.held)
                self.assertTrue(same(trained, served))
                self.assertEqual(rollout.attachment, b"header")
                rollout.scrub()
                arrays(served)["embed"][3, 5] += 1
                with self.assertRaises(weft.VersionError) as caught:
                    rollout.scrub()
                self.assertIn("embed", str(caught.exception))

    def test_parts_of_a_fused_tensor_and_a_table_of_pieces(self):
        trained = {
            "q": np.zeros((8, 4), np.float32),
            "k": np.zeros((4, 4), np.float32),
            "v": np.zeros((4, 4), np.float32),
        }
        fused = np.zeros((16, 4), np.float32)
        served = {"q": [fused[:2], fused[2:8]], "k": fused[8:12], "v": fused[12:]}
        layout = weft.Layout(trained)
        table = weft.Pieces([0, 1, 2], 0, [32, 16, 16], fused.ctypes.data + 4 * np.array([0, 32, 48]), keep=fused)
        with pair(trained, served, layout=layout) as (trainer, rollout):
            for version, tensors in ((1, served), (2, table)):
                rollout.bind(tensors)
                trained["q"][version, 1], trained["k"][3, version], trained["v"][0, 0] = 1, 2, version
                trainer.publish(version)
                take(rollout, version)
                self.assertTrue((np.concatenate(list(trained.values())) == fused).all())

    def test_weights_that_moved_are_bound_again(self):
        trained, served = weights(), weights()
        with pair(trained, served) as (trainer, rollout):

            def elsewhere(named):
                return {
                    name: weft.Typed(t.array.copy(), t.dtype) if isinstance(t, weft.Typed) else t.copy()
                    for name, t in named.items()
                }

            moved = elsewhere(served)
            rollout.bind(moved)
            with self.assertRaises(weft.VersionError):
                rollout.bind(weights(9))
            change(trained, 1)
            trainer.publish(1)
            take(rollout, 1)
            self.assertTrue(same(trained, moved))
            change(trained, 2)
            trainer.publish(2)
            self.assertEqual(rollout.staged(BOUND).version, 2)
            again = elsewhere(moved)
            rollout.bind(iter(again.items()))
            take(rollout, 2)  # what was staged for the old addresses came again
            self.assertTrue(same(trained, again))

    def test_an_engine_that_sleeps(self):
        trained, served = weights(), weights()
        with pair(trained, served) as (trainer, rollout):
            held = rollout.held
            rollout.unbind()
            self.assertEqual(rollout.held, held)
            with self.assertRaises(weft.CallError):
                rollout.staged(timeout=0)
            with self.assertRaises(weft.CallError):
                rollout.commit(1)
            change(trained, 1)
            trainer.publish(1)
            other = weights()
            rollout.bind(other)
            take(rollout, 1)
            self.assertTrue(same(trained, other))
            rollout.unbind()
            emptied = weights()
            for array in arrays(emptied).values():
                array[...] = 0
            with self.assertRaises(weft.Error):
                rollout.bind(emptied)
            rollout.bind(emptied, empty=True)
            take(rollout, 1)
            self.assertTrue(same(trained, emptied))

    def test_a_trainer_that_gives_its_tensors_away(self):
        """Rollouts join meanwhile, and the tensors that are bound then have whatever bits."""
        served = weights()
        with pair(served=served) as (trainer, rollout):
            trained = weights(3)
            trainer.bind(trained)
            trainer.publish(1)
            gone, kept = weakref.ref(trained["embed"]), {name: array.copy() for name, array in arrays(trained).items()}
            trained = None
            self.assertIsNotNone(gone())
            trainer.unbind()
            self.assertIsNone(gone())
            with self.assertRaisesRegex(weft.CallError, "call bind first"):
                trainer.publish(2)
            late = weights(5)
            with weft.Rollout(site(trainer), "b", late, log=quiet) as other:
                take(other, 1)
                take(rollout, 1)
                self.assertTrue(same(kept, served) and same(kept, late))
                trained = weights(6)
                trainer.bind(trained)
                self.assertEqual(trainer.publish(2).target.number, 2)
                take(other, 2)
                take(rollout, 2)
                self.assertTrue(same(trained, served) and same(trained, late))

    def test_attachments_travel(self):
        trained = weights()
        with pair(trained) as (trainer, rollout):
            change(trained, 1)
            trainer.publish(1, attachment=b"one")
            take(rollout, 1)
            change(trained, 2)
            trainer.publish(2)
            take(rollout, 2)
            self.assertEqual((trainer.attachment, rollout.attachment), (b"one", b"one"))


class Telling(unittest.TestCase):
    def test_errors_name_pythons_calls(self):
        with pair() as (trainer, rollout), self.assertRaises(weft.CallError) as caught:
            rollout.want(1)
        self.assertRegex(str(caught.exception), r"^want\(\): .* open it with wants=True$")
        self.assertEqual(_library.in_python("weft_bind_blocks() and weft_trainer_open"), "bind() and Trainer()")
        for own in ("/tmp/weft_run/weft_site.ini", "key weft_x", "tensor 'weft_commit'", "/etc/weft_options.ini"):
            self.assertEqual(_library.in_python(own), own)

    def test_sites_and_layouts_are_pickled(self):
        for source in (support.SITE.format(provider="loop"), support.ROOT / "conf" / "local.ini"):
            one = weft.Site(source, {"trainer.journal": "33MiB"})
            other = pickle.loads(pickle.dumps(one))
            self.assertEqual((other.get("trainer.journal"), other.peers), (one.get("trainer.journal"), one.peers))
        layout = weft.Layout(weights())
        self.assertEqual(pickle.loads(pickle.dumps(layout)), layout)

    def test_stats_peers_and_events(self):
        trained = weights()
        with pair(trained) as (trainer, rollout):
            change(trained, 1)
            trainer.publish(1)
            take(rollout, 1)
            trainer.wait(1, timeout=BOUND)
            (peer,) = trainer.peers()
            self.assertEqual(
                (peer.name, peer.state, peer.provider, peer.held.number, peer.lag), ("a", "live", "loop", 1, 0)
            )
            self.assertEqual(rollout.peers()[0].held, peer.held)
            self.assertEqual((trainer.stats().versions, rollout.stats().versions, len(peer.rails)), (1, 1, 1))
            kinds = [event.kind for event in trainer.events(timeout=0.2)]
            self.assertEqual(kinds[0], "joined")
            self.assertIn("held", kinds)
            self.assertIn("staged", [event.kind for event in rollout.events()])
            self.assertEqual(list(rollout.events()), [])

    def test_a_trainer_that_is_away_is_waited_for(self):
        named = weights()
        trainer = weft.Trainer(site(), named, log=quiet)
        listen, lines = trainer.stats().listen, []
        where = site(trainer, session__connect_deadline="200ms")
        with weft.Rollout(where, "a", weights(), log=lambda level, line: lines.append(line)) as rollout:
            while not rollout.held.run:  # until the trainer has named the bits
                rollout.staged(timeout=0.01)
            held = rollout.held
            self.assertIsNone(rollout.away)
            trainer.close()
            self.assertIsNone(rollout.staged(timeout=0.5))
            self.assertGreater(rollout.away, 0.4)
            self.assertEqual(rollout.held, held)
            list(rollout.events())
            self.assertEqual(sum("serving version 0" in line for line in lines), 1)
            change(named, 1)
            with weft.Trainer(site(trainer__listen=listen), named, log=quiet) as trainer:
                trainer.publish(1)
                self.assertEqual(take(rollout, 1), trainer.held)
                self.assertIsNone(rollout.away)

    def test_offers_of_a_trainer_that_is_away(self):
        trainer = weft.Trainer(site(), weights(), log=quiet)
        where = site(trainer, session__connect_deadline="200ms")
        with weft.Rollout(where, "a", weights(), log=quiet, wants=True) as rollout:
            self.assertEqual(rollout.offered(timeout=BOUND), 0)
            trainer.close()
            self.assertIsNone(rollout.offered(after=0, timeout=0.5))

    def test_a_trainer_that_never_comes_is_told(self):
        where = site(trainer__listen="127.0.0.1:1", session__connect_deadline="200ms")
        with weft.Rollout(where, "a", weights(), log=quiet) as rollout:
            with self.assertRaises(weft.PeerError) as caught:
                rollout.staged(timeout=0.5)
            self.assertEqual(caught.exception.name, "unreachable")
            self.assertIsNone(rollout.away)

    def test_versions_compare_by_run_and_number(self):
        older, newer = weft.Version(7, 41, 0xFF), weft.Version(8, 40, 1)
        self.assertTrue(older < newer <= newer and newer > older >= older and newer != older)
        part = weft.Version(8, 40, 2)  # what another rank holds of the same version
        self.assertTrue(part == newer and not part > newer and hash(part) == hash(newer))
        self.assertNotEqual(weft.Version(0, 0, 1), weft.Version(0, 0, 2))
        self.assertEqual((max([newer, older]), newer), (newer, (8, 40, 1)))
        same, next_ = tuple(newer), (8, 40, 2)  # plain tuples compare by all three
        self.assertTrue(newer <= same <= newer >= same and not newer < same and not newer > same)
        self.assertTrue(newer < next_ and next_ > newer and newer != next_)
        self.assertEqual(str(newer), "0000000000000008/40 0000000000000001")
        self.assertEqual(eval(repr(part), {"Version": weft.Version}).root, part.root)
        self.assertIn("root=0x0000000000000002", repr(part))
        self.assertEqual(part.label, "8:40:0000000000000002")

    def test_a_lost_trainer_is_told(self):
        self.assertRaisesRegex(ValueError, "on_away", weft.Rollout, site(), "a", weights(), on_away="die")
        with pair(on_away="raise") as (trainer, rollout):
            while rollout.held is None or [peer.state for peer in trainer.peers()] != ["live"]:
                rollout.staged(timeout=0.01)
            trainer.close()
            trainer.close()
            with self.assertRaises(weft.PeerError) as caught:
                while True:
                    rollout.staged(timeout=0.2)
            self.assertEqual(caught.exception.name, "peer_lost")
            with self.assertRaises(weft.PeerError):
                rollout.staged(timeout=None)
            with self.assertRaises(weft.PeerError):
                asyncio.run(rollout.staged_async())

    def test_errors_have_scopes_and_texts(self):
        with pair() as (trainer, rollout):
            trainer.publish(3)
            with self.assertRaisesRegex(weft.CallError, "must exceed 3") as caught:
                trainer.publish(3)
            self.assertEqual(caught.exception.name, "state")
            with self.assertRaisesRegex(weft.TimeoutExpired, "^wait: after 100 ms version 3 "):
                trainer.wait(3, ["b"], timeout=0.1)
            self.assertTrue(issubclass(weft.TimeoutExpired, TimeoutError))
            with self.assertRaises(weft.CallError):
                rollout.commit(99)
        for call in (lambda: trainer.publish(4), rollout.staged, rollout.stats, lambda: trainer.held):
            self.assertRaisesRegex(weft.ClosedError, "closed", call)

    def test_site_errors_name_line_and_key(self):
        with self.assertRaisesRegex(weft.CallError, r"site text:3.*sesion|site text.*sesion"):
            weft.Site("[trainer]\nlisten = 127.0.0.1:0\n[sesion]\n")
        words = weft.Site("[trainer]\nlisten = 127.0.0.1:1\n[peer.a]\n")
        for call in (
            lambda: weft.Rollout(words, "q", weights(), log=quiet),
            lambda: weft.Layout.fetch(words, "q"),
            lambda: words.get("peer.provider", "q"),
        ):
            with self.assertRaisesRegex(weft.CallError, "site text.*'q'|'q'.*site text"):
                call()
        with self.assertRaisesRegex(weft.CallError, "No such file"):
            weft.Site("/nowhere/site.ini")
        with self.assertRaisesRegex(weft.CallError, "nowhere.ini|journal"):
            weft.Site(support.ROOT / "conf" / "local.ini", {"trainer.journal": "much"})
        held = weft.Site(support.ROOT / "conf" / "local.ini", {"trainer.listen": "127.0.0.1:9"})
        self.assertEqual(
            (held.peers, held.get("trainer.listen"), held.get("peer.provider", "a")),
            (["a", "b", "c"], "127.0.0.1:9", "tcp"),
        )

    def test_a_provider_that_is_missing_is_refused(self):
        with self.assertRaises(weft.CallError) as caught:
            weft.Trainer(site(provider="efa"), weights(), log=quiet)
        self.assertEqual(caught.exception.name, "missing")

    def test_log_lines_and_what_their_callback_raises(self):
        lines = []
        with weft.Trainer(site(), weights(), log=lambda level, line: lines.append((level, line))) as trainer:
            trainer.publish(1)
            list(trainer.events())
            self.assertTrue(any(level == "info" and "version 1" in line for level, line in lines))

        def broken(level, line):
            raise KeyError(line)

        trainer = weft.Trainer(site(), weights(), log=broken)
        self.assertRaises(KeyError, lambda: list(trainer.events()))
        trainer.publish(1)
        self.assertRaises(KeyError, trainer.close)
        self.assertTrue(trainer.closed)

    def test_reprs_say_what_it_is(self):
        with pair() as (trainer, rollout):
            self.assertIn("5 tensors", repr(trainer))
            self.assertIn("Rollout a", repr(rollout))
        self.assertIn("closed", repr(rollout))
        self.assertIn("2 peers", repr(site()))
        self.assertTrue(weft.devices()[0].usable)
        self.assertIn("loop", [provider.provider for provider in weft.providers()])


if __name__ == "__main__":
    support.main()
