"""weft_fabric.vllm by a stand-in for vLLM: its workers' contract, processes that move together, caches, sleep and refusals."""

import asyncio
import contextlib
import threading
import time
import unittest
from types import SimpleNamespace
from unittest import mock

import numpy as np

import support
import vllm_standin
import weft_fabric as weft
import weft_fabric.vllm
from support import BOUND, quiet
from weft_fabric.engine import _group
from weft_fabric.engine._core import Core, Init
from weft_fabric.engine._group import Alone
from weft_fabric.vllm import _follow, _refusals, _worker


def weights(seed=0):
    random = np.random.default_rng(seed)
    return {name: random.standard_normal(shape, np.float32) for name, shape in vllm_standin.SHAPES.items()}


def step(trained, version):
    random = np.random.default_rng(version)
    for array in trained.values():
        array.reshape(-1)[random.integers(0, array.size, 3)] += 1


@contextlib.contextmanager
def fleet(size=1, caches="reset", loaded=True, site=None, **options):
    """A trainer, and an LLM of `size` workers that follows it."""
    trained = weights()
    llm = vllm_standin.LLM(size)
    for worker in llm.workers:
        worker.model.load(weights(9) if loaded is False else trained if loaded is True else loaded)
    text = support.SITE.format(provider="loop") + "[peer.w*]\n"
    with weft.Trainer(weft.Site(text, vllm_standin.CUTS), trained, log=quiet) as trainer:
        overrides = {
            **vllm_standin.CUTS,
            "trainer.listen": trainer.stats().listen,
            "log.level": "error",
            **(site or {}),
        }
        follower = weft.vllm.follow(
            llm, text, "w{rank}" if size > 1 else "a", caches=caches, overrides=overrides, **options
        )
        with follower:
            yield trained, trainer, llm, follower


class Following(unittest.TestCase):
    def same(self, llm, trained):
        return all(worker.model.same(trained) for worker in llm.workers)

    def test_versions_of_one_and_of_two_workers(self):
        for size in (1, 2):
            with self.subTest(size=size), fleet(size) as (trained, trainer, llm, follower):
                for version in (1, 2, 3):
                    step(trained, version)
                    trainer.publish(version)
                    self.assertFalse(self.same(llm, trained))
                    held = follower.update(version, BOUND)
                    self.assertTrue(self.same(llm, trained))
                    self.assertRegex(held, rf"^[0-9a-f]+:{version}:[0-9a-f]{{16}}(\+[0-9a-f]{{16}}){{{size - 1}}}$")
                    self.assertEqual(llm.weight_version, held)
                    self.assertGreater(follower.pause_ms(), 0)
                trainer.wait(3, timeout=BOUND)
                self.assertEqual(follower.update(3, BOUND), held)  # is held already
                trainer.publish(4)
                end = time.monotonic() + BOUND
                while follower.update() == held:  # the newest one that the trainer has told of
                    self.assertLess(time.monotonic(), end)
                self.assertIn(":4:", follower.version)

    def test_weights_of_no_version_and_no_weights(self):
        for options in ({}, {"empty": True}):
            for size in (1, 2):
                with self.subTest(size=size, **options):
                    with fleet(size, loaded=False, **options) as (trained, trainer, llm, follower):
                        self.assertEqual(follower.version, "")
                        with self.assertRaisesRegex(weft.CallError, "holds no version"):
                            follower.generate([[1, 2]])
                        step(trained, 1)
                        trainer.publish(1)
                        self.assertIn(":1:", follower.update(1, BOUND))
                        self.assertTrue(self.same(llm, trained))

    def test_weights_that_must_be_known(self):
        """Of no version: refused, nothing is written, and again. Of one: the engine joins, and sleeps as ever."""
        for size in (1, 2):
            near = weights()
            near["norm"][3] += 1  # a trainer would repair that
            for other in (weights(9), near):
                with self.subTest(size=size), fleet(size, loaded=other, known=True) as (_, _, llm, follower):
                    for _ in range(2):
                        with self.assertRaisesRegex(weft.Error, "are no version that the trainer knows"):
                            follower.update(0, BOUND)
                        self.assertTrue(self.same(llm, other))
                    self.assertEqual(follower.version, "")
            with self.subTest(size=size), fleet(size, known=True) as (trained, trainer, llm, follower):
                step(trained, 1)
                trainer.publish(1)
                self.assertIn(":1:", follower.update(1, BOUND))
                for level in (1, 2):
                    follower.sleep(level)
                    follower.wake()
                    self.assertIn(":1:", follower.update(1, BOUND))
                self.assertTrue(self.same(llm, trained))
        with self.assertRaisesRegex(weft.CallError, "empty and known"), fleet(empty=True, known=True):
            pass

    def test_several_trainers(self):
        """Two sources, each with a part of the model: the workers move when both have the version."""
        trained, llm = weights(), vllm_standin.LLM(2)
        layout = weft.Layout(trained)
        text = support.SITE.format(provider="loop") + "[peer.w*]\n"
        with contextlib.ExitStack() as stack:
            trainers, sources = [], []
            for names in (("q", "k"), ("v", "o", "norm")):
                rows = [(layout.index[n], 0, trained[n].size // trained[n].shape[-1], 0, trained[n].shape[-1],
                         trained[n].__array_interface__["data"][0]) for n in names]  # fmt: skip
                blocks = weft.Blocks(*zip(*rows), keep=trained)
                trainer = weft.Trainer(
                    weft.Site(text, vllm_standin.CUTS), blocks, layout=layout, holding=True, run=7, log=quiet
                )
                trainers.append(stack.enter_context(trainer))
                sources.append((trainer.stats().listen, blocks.slices.tolist()))
            overrides = {**vllm_standin.CUTS, "trainer.listen": sources[0][0], "log.level": "error"}
            follower = stack.enter_context(
                weft.vllm.follow(llm, text, "w{rank}", caches="reset", empty=True, overrides=overrides, sources=sources)
            )
            for version in (0, 1):
                if version:
                    step(trained, version)
                    for trainer in trainers:
                        trainer.publish(version)
                self.assertIn(f"7:{version}:", follower.update(version, BOUND))
                self.assertTrue(self.same(llm, trained))

    def test_what_one_worker_lacks_none_takes(self):
        """One worker's commit fails: the other undoes its own, and the next update brings both on."""
        with fleet(2) as (trained, trainer, llm, follower):
            before = {name: array.copy() for name, array in trained.items()}
            old = follower.update(None, BOUND)
            step(trained, 1)
            trainer.publish(1)
            rollout = llm.workers[1].weight_transfer_engine.core.rollout
            commit, rollout.commit = rollout.commit, lambda *a, **k: (_ for _ in ()).throw(RuntimeError("planted"))
            with self.assertRaisesRegex(weft.VersionError, "undone: process 1: planted; .* holds version 0 as before"):
                follower.update(1, BOUND)
            self.assertTrue(self.same(llm, before))
            self.assertEqual((follower.version, llm.weight_version), (old, old))
            rollout.commit = commit
            step(trained, 2)
            trainer.publish(2)
            self.assertIn(":2:", follower.update(2, BOUND))
            self.assertTrue(self.same(llm, trained))

    def test_a_finish_that_anybody_calls_sets_the_label(self):
        """As a client of HTTP does, who has no follower; the engines of other backends are left alone."""
        for data_parallel in (1, 2):
            with fleet(2) as (trained, trainer, llm, follower):
                llm.core.vllm_config.parallel_config.data_parallel_size = data_parallel
                first, rollout = follower.update(0, BOUND), llm.workers[1].weight_transfer_engine.core.rollout
                for version, commit in ((1, rollout.commit), (2, mock.Mock(side_effect=RuntimeError("planted")))):
                    step(trained, version)
                    trainer.publish(version)
                    llm.start_weight_update()
                    llm.update_weights({"update_info": {"version": version, "timeout": BOUND}})
                    with mock.patch.object(rollout, "commit", commit), contextlib.suppress(weft.VersionError):
                        llm.finish_weight_update()
                    held = _worker.label_of(llm.collective_rpc("weft_held"))
                    self.assertIn(":1:", held)
                    self.assertNotEqual(held, first)
                    self.assertEqual(llm.weight_version, held)
                self.assertNotEqual(held, first)
                with mock.patch.object(llm.core, "engines_running", True, create=True):
                    with self.assertRaisesRegex(RuntimeError, "update_weights: data-parallel .* pause them first"):
                        llm.update_weights({"update_info": {}})
                llm.core.vllm_config.weight_transfer_config.backend = "nccl"
                llm.start_weight_update()
                llm.update_weights({"update_info": {"version": 2, "timeout": BOUND}})
                llm.finish_weight_update()
                self.assertEqual(llm.weight_version, held)

    def test_a_poll_between_staging_and_commit(self):
        """It may ask for a newer version, and the commit brings what was staged."""
        with fleet(2) as (trained, trainer, llm, follower):
            follower.update(0, BOUND)
            step(trained, 1)
            trainer.publish(1)
            llm.start_weight_update()
            llm.update_weights({"update_info": {"version": 1, "timeout": 3.0}})
            before = {name: array.copy() for name, array in trained.items()}
            step(trained, 2)
            trainer.publish(2)
            end = time.monotonic() + BOUND
            while set(llm.collective_rpc("weft_ready", args=(2,))) != {2}:
                self.assertLess(time.monotonic(), end)
            self.assertEqual(llm.collective_rpc("weft_ready"), [1, 1])  # what an update without a number would bring
            self.assertEqual(llm.collective_rpc("weft_is_staged", args=(99,)), [False, False])  # nobody published it
            begin = time.monotonic()
            llm.finish_weight_update()
            self.assertLess(time.monotonic() - begin, 2)
            self.assertIn(":1:", _worker.label_of(llm.collective_rpc("weft_held")))
            self.assertTrue(self.same(llm, before))
            self.assertIn(":2:", follower.update(2, BOUND))
            self.assertTrue(self.same(llm, trained))

    def derive(self, llm):
        """Has each worker compute the sum of its `o` after each commit, as an engine computes from its weights."""
        for worker in llm.workers:
            worker.sums, worker.fails = [], 0

            def derive(worker=worker):
                if worker.fails:
                    worker.fails -= 1
                    raise ValueError("planted")
                worker.sums.append(float(worker.model.o.sum()))

            worker.weight_transfer_engine.core._group._derive = derive

    def test_what_is_computed_follows(self):
        for size in (1, 2):
            with self.subTest(size), fleet(size) as (trained, trainer, llm, follower):
                follower.update(None, BOUND)
                self.derive(llm)
                before = [float(worker.model.o.sum()) for worker in llm.workers]
                old = follower.version
                for worker in llm.workers[-1:]:
                    worker.fails = 1
                trained["o"] += 1
                trainer.publish(1)
                why = f"undone: process {size - 1}: what the engine computes from weights: planted; .* holds version 0"
                with self.assertRaisesRegex(weft.VersionError, why):
                    follower.update(1, BOUND)
                self.assertEqual([worker.sums[-1] for worker in llm.workers], before)
                self.assertEqual(follower.version, old)
                trainer.publish(2)
                self.assertIn(":2:", follower.update(2, BOUND))
                self.assertEqual([w.sums[-1] for w in llm.workers], [float(w.model.o.sum()) for w in llm.workers])
                self.assertNotEqual([w.sums[-1] for w in llm.workers], before)

    def test_what_cannot_be_computed_is_served_by_none(self):
        """Neither after a commit nor after its undo: the engine holds no version before that has been made up for."""
        with fleet() as (trained, trainer, llm, follower):
            follower.update(None, BOUND)
            self.derive(llm)
            llm.workers[0].fails = 2
            trained["o"] += 1
            trainer.publish(1)
            with self.assertRaisesRegex(weft.VersionError, "planted"):
                follower.update(1, BOUND)
            self.assertEqual(follower.version, "")
            with self.assertRaisesRegex(weft.CallError, "holds no version"):
                follower.generate([[1]])
            llm.workers[0].fails = 1
            with self.assertRaisesRegex(weft.VersionError, "is not staged: process 0: what the engine computes"):
                follower.update(1, BOUND)
            self.assertIn(":1:", follower.update(1, BOUND))
            self.assertEqual(llm.workers[0].sums[-1], float(llm.workers[0].model.o.sum()))

    def test_what_is_computed_after_a_snapshot(self):
        with fleet(loaded=False, empty=True) as (trained, trainer, llm, follower):
            self.derive(llm)
            llm.workers[0].fails = 1
            with self.assertRaisesRegex(weft.VersionError, "planted"):
                follower.update(None, BOUND)
            self.assertEqual(follower.version, "")
            self.assertIn(":0:", follower.update(None, BOUND))
            self.assertEqual(llm.workers[0].sums, [float(llm.workers[0].model.o.sum())])

    def test_a_worker_that_is_away_when_all_agree(self):
        with fleet(2) as (trained, trainer, llm, follower):
            before = {name: array.copy() for name, array in trained.items()}
            follower.update(None, BOUND)
            step(trained, 1)
            trainer.publish(1)
            llm.ranks.timeout = 0.5
            rollout = llm.workers[1].weight_transfer_engine.core.rollout
            commit = rollout.commit

            def die(*arguments, **options):
                raise SystemExit("the process died")  # which tells the others nothing

            rollout.commit = die
            with self.assertRaisesRegex(RuntimeError, "a process is away"):
                follower.update(1, BOUND)
            self.assertTrue(llm.workers[0].model.same(before))
            rollout.commit = commit

    def test_a_version_that_does_not_come(self):
        with fleet(2) as (trained, trainer, llm, follower):
            held = follower.update(None, BOUND)
            with self.assertRaisesRegex(
                weft.VersionError, "version 7 is not staged: process 0: version 7 did not come"
            ):
                follower.update(7, 0.2)
            self.assertEqual(follower.version, held)
            step(trained, 1)
            trainer.publish(1)
            self.assertIn(":1:", follower.update(1, BOUND))

    def test_a_trainer_that_comes_back_while_an_update_waits(self):
        text = support.SITE.format(provider="loop")
        with fleet(site={"session.connect_deadline": "200ms"}) as (trained, trainer, llm, follower):
            step(trained, 1)
            trainer.publish(1)
            held = follower.update(1, BOUND)
            listen = trainer.stats().listen
            trainer.close()
            with self.assertRaisesRegex(weft.VersionError, "did not come in 0.5 s, and the trainer is away for 0"):
                follower.update(2, 0.5)  # longer than connect_deadline
            self.assertEqual((follower.version, self.same(llm, trained)), (held, True))
            step(trained, 2)

            def comes_back():
                time.sleep(0.5)
                overrides = {**vllm_standin.CUTS, "trainer.listen": listen}
                later = weft.Trainer(weft.Site(text, overrides), trained, log=quiet, first_version=2)
                self.addCleanup(later.close)

            back = threading.Thread(target=comes_back)
            back.start()
            self.assertIn(":2:", follower.update(2, BOUND))
            back.join()
            self.assertTrue(self.same(llm, trained))

    def test_order_of_calls(self):
        with fleet() as (trained, trainer, llm, follower):
            llm.start_weight_update()
            with self.assertRaisesRegex(weft.CallError, "no version was asked for"):
                llm.finish_weight_update()
            with self.assertRaisesRegex(weft.CallError, "has joined already"):
                llm.init_weight_transfer_engine({"init_info": {"site": "x", "peer": "a"}})
            follower.close()
            with self.assertRaisesRegex(weft.CallError, "has not joined"):
                llm.start_weight_update()
        with self.assertRaisesRegex(weft.CallError, "an engine of 2 processes needs a name for each"):
            weft.vllm.follow(vllm_standin.LLM(2), "site.ini", "a", caches="reset")

    def test_weights_that_moved_are_followed(self):
        """The engine gives a worker's weights other memory: what lay there before is never written again."""
        for size in (1, 2):
            with self.subTest(size=size), fleet(size) as (trained, trainer, llm, follower):
                model = llm.workers[0].model
                before, kept = model.qkv, model.qkv.copy()
                model.qkv = before.copy()
                step(trained, 1)
                trainer.publish(1)
                follower.update(1, BOUND)
                self.assertTrue(self.same(llm, trained))
                self.assertEqual(before.tobytes(), kept.tobytes())

    def test_weights_that_move_after_staging_are_not_written(self):
        with fleet() as (trained, trainer, llm, follower):
            model = llm.workers[0].model
            step(trained, 1)
            trainer.publish(1)
            llm.start_weight_update()
            llm.update_weights({"update_info": {"version": 1, "timeout": BOUND}})
            before, kept = model.norm, model.norm.copy()
            model.norm = before.copy()
            with self.assertRaisesRegex(weft.CallError, "other memory since the version was staged"):
                llm.finish_weight_update()
            self.assertEqual((before.tobytes(), model.norm.tobytes()), (kept.tobytes(),) * 2)
            follower.update(1, BOUND)
            self.assertTrue(self.same(llm, trained))

    def test_sleep_and_wake(self):
        for size in (1, 2):
            for level in (1, 2):
                with self.subTest(size=size, level=level), fleet(size) as (trained, trainer, llm, follower):
                    held = follower.update(None, BOUND)
                    follower.sleep(level)
                    self.assertEqual(follower.version, "")
                    with self.assertRaisesRegex(weft.CallError, "the engine sleeps"):
                        follower.update(None, BOUND)
                    step(trained, 1)
                    trainer.publish(1)  # comes while the weights are away
                    follower.wake(["kv_cache"])
                    self.assertEqual(follower.version, "")
                    woken = follower.wake()
                    self.assertEqual(woken, held if level == 1 else "")
                    self.assertIn(":1:", follower.update(1, BOUND))
                    self.assertTrue(self.same(llm, trained))


class Names(unittest.TestCase):
    def test_data_parallel_engines_count_through(self):
        for first, name in ((0, "w0"), (6, "w6")):
            core = Core(Alone(), "cpu", list, list, first=first)
            self.assertEqual(core._site(Init(support.SITE.format(provider="loop"), "w{rank}"))[1], name)


class FollowingByAsyncio(unittest.IsolatedAsyncioTestCase):
    async def test_versions_while_requests_run(self):
        for caches in ("reset", "salt", "keep"):
            for size, engines in ((1, 1), (2, 1), (1, 2)):
                with self.subTest(caches, size=size, engines=engines):
                    await self.follow(caches, size, engines)

    async def test_an_engine_goes_on_whatever_comes(self):
        """After a commit that fails, one that is cancelled, and not after one in a pause that somebody else made."""

        async def fails():
            raise RuntimeError("planted")

        async def lasts():
            await asyncio.sleep(BOUND)

        trained, llm = weights(), vllm_standin.AsyncLLM()
        llm.llm.workers[0].model.load(trained)
        text = support.SITE.format(provider="loop")
        with weft.Trainer(weft.Site(text, vllm_standin.CUTS), trained, log=quiet) as trainer:
            overrides = {**vllm_standin.CUTS, "trainer.listen": trainer.stats().listen, "log.level": "error"}
            follower = await weft.vllm.follow_async(llm, text, "a", caches="reset", overrides=overrides)
            await follower.update(0, BOUND)
            step(trained, 1)
            trainer.publish(1)
            for commit, error in ((fails, RuntimeError), (lasts, asyncio.TimeoutError)):
                pauses = llm.pauses
                with mock.patch.object(follower, "_commit", commit), self.assertRaises(error):
                    await asyncio.wait_for(follower.update(1, BOUND), 2)
                self.assertEqual((llm.pauses, llm.paused), (pauses + 1, False))
            llm.theirs, pauses = True, llm.pauses
            self.assertIn(":1:", await follower.update(1, BOUND))
            self.assertEqual((llm.pauses, llm.paused), (pauses, False))
            await follower.close()

    async def test_workers_that_have_different_versions(self):
        """All are asked for the newest that one of them has."""
        said = {None: [[1], [2]], 2: [[2], [2]]}

        async def each(method, wanted):
            return said[wanted]

        follower = _follow.AsyncFollower(vllm_standin.AsyncLLM(), "keep")
        with mock.patch.object(follower, "_each", each):
            self.assertEqual(await follower._ready(None, 1.0), 2)

    async def newer(self, trainer, trained, llm, follower):
        """A version that comes while an update without a number begins is left to the next update."""
        start = llm.start_weight_update

        async def start_late():
            step(trained, 3)
            trainer.publish(3)
            await start()

        step(trained, 2)
        trainer.publish(2)
        llm.start_weight_update = start_late
        while set(await llm.collective_rpc("weft_ready")) != {2}:
            await asyncio.sleep(0.01)
        await follower.update()
        llm.start_weight_update = start
        self.assertIn(":2:", follower.version)

    async def follow(self, caches, size, engines):
        trained, llm = weights(), vllm_standin.AsyncLLM(size, engines)
        for worker in llm.llm.workers:
            worker.model.load(trained)
        text = support.SITE.format(provider="loop") + "[peer.w*]\n"
        with weft.Trainer(weft.Site(text, vllm_standin.CUTS), trained, log=quiet) as trainer:
            overrides = {**vllm_standin.CUTS, "trainer.listen": trainer.stats().listen, "log.level": "error"}
            follower = await weft.vllm.follow_async(llm, text, "w{rank}", caches=caches, overrides=overrides)
            first = await follower.update(0, BOUND)
            stood = llm.pauses
            running = follower.generate([1, 2])
            self.assertEqual((await running.__anext__()).ended, first)
            with self.assertRaisesRegex(weft.TimeoutExpired, "version 1 did not come in 0.1 s: .*process 0: "):
                await follower.update(1, 0.1)
            self.assertEqual((stood, llm.pauses), (1 if engines == 1 else 3, stood))  # engines that agree stand still
            step(trained, 1)
            trainer.publish(1)
            second = await follower.update(1, BOUND)
            self.assertEqual((llm.pauses, llm.paused, llm.llm.weight_version), (stood + engines, False, second))
            self.assertEqual({core.weight_version for core in llm.cores}, {second})
            self.assertEqual(second.count("+"), max(size, engines) - 1)
            self.assertTrue(all(worker.model.same(trained) for worker in llm.llm.workers))
            last = await running.__anext__()
            self.assertEqual((last.began, last.ended), (first, first))  # vLLM's span of its last token
            new = [answer async for answer in follower.generate([1, 2])]
            self.assertEqual((new[0].began, new[0].output.reused), (second, caches == "keep"))
            self.assertGreater(await follower.pause_ms(), 0)
            await self.newer(trainer, trained, llm, follower)
            second = await follower.update(3, BOUND)
            await follower.sleep(1)
            self.assertEqual(await follower.wake(), second)
            await follower.close()


class Caches(unittest.TestCase):
    PROMPT = [5, 6, 7]

    def ask(self, follower, llm):
        (answer,) = follower.generate([self.PROMPT])
        fresh = sum(float(worker.model.qkv.sum()) for worker in llm.workers)
        return answer, answer.output.outputs[0].token_ids[0] == fresh

    def test_what_becomes_of_old_keys(self):
        """With reset and salt no new request uses keys that old weights computed; keep says that it does."""
        for caches, fresh in (("reset", True), ("salt", True), ("keep", False)):
            with self.subTest(caches), fleet(caches=caches) as (trained, trainer, llm, follower):
                first = follower.update(None, BOUND)
                answer, _ = self.ask(follower, llm)
                self.assertEqual((answer.began, answer.ended), (first, first))
                self.assertTrue(self.ask(follower, llm)[0].output.reused)
                step(trained, 1)
                trained["q"] += 1
                trainer.publish(1)
                second = follower.update(1, BOUND)
                self.assertNotEqual(first, second)
                answer, is_fresh = self.ask(follower, llm)
                self.assertEqual((answer.began, answer.ended, is_fresh), (second, second, fresh))
                self.assertEqual(answer.output.reused, not fresh)
                self.assertEqual(llm.encoded > 0, caches != "keep")

    def test_the_option_has_no_default(self):
        self.assertRaises(TypeError, weft.vllm.follow, vllm_standin.LLM(), "site.ini", "a")
        with self.assertRaisesRegex(ValueError, "caches='drop': say what becomes"):
            weft.vllm.follow(vllm_standin.LLM(), "site.ini", "a", caches="drop")

    def test_salts(self):
        self.assertEqual(_follow.salted("text", "v"), {"prompt": "text", "cache_salt": "v"})
        self.assertEqual(_follow.salted((1, 2), "v"), {"prompt_token_ids": [1, 2], "cache_salt": "v"})
        self.assertEqual(_follow.salted({"prompt": "x", "cache_salt": "u"}, "v")["cache_salt"], "u:v")
        self.assertRaises(TypeError, _follow.salted, 7, "v")


class Labels(unittest.TestCase):
    def test_labels(self):
        one, other = weft.Version(0xAB, 3, 0x10), weft.Version(0xAB, 3, 0x11)
        self.assertEqual(_group.label([one]), "ab:3:0000000000000010")
        self.assertEqual(_group.label([one, other]), "ab:3:0000000000000010+0000000000000011")
        for held in ([], [None], [one, None], [one, one._replace(number=4)], [one, one._replace(run=1)]):
            self.assertEqual(_group.label(held), "")


class Refusals(unittest.TestCase):
    def refused(self, model=None, known={}, **config):
        fields = {"speculative_config": None, "load_config": None, "lora_config": None, "parallel_config": None}
        layers = model or {}
        model = SimpleNamespace(named_modules=lambda: layers.items())
        try:
            _refusals.refuse(model, SimpleNamespace(**{**fields, **config}), known)
        except weft.CallError as error:
            self.assertEqual(error.name, "missing")
            return str(error)
        return ""

    def method(self, name, base="object", **fields):
        return type(name, (type(base, (), {}),), fields)()

    def test_configurations(self):
        self.assertEqual(self.refused(), "")
        self.assertEqual(self.refused(speculative_config=SimpleNamespace(method="ngram")), "")
        for text, config in (
            ("by 'eagle3' has a draft model", {"speculative_config": SimpleNamespace(method="eagle3")}),
            ("'ipc_cache' shares the weights", {"load_config": SimpleNamespace(load_format="ipc_cache")}),
            ("enable_lora", {"lora_config": object()}),
            ("enable_eplb moves experts", {"parallel_config": SimpleNamespace(enable_eplb=True)}),
            ("offloaded", {"offload_config": SimpleNamespace(uva=SimpleNamespace(cpu_offload_gb=1))}),
        ):
            self.assertIn(text, self.refused(**config))

    def test_layers(self):
        plain = SimpleNamespace(quant_method=self.method("UnquantizedLinearMethod"))
        gate = SimpleNamespace(quant_method=self.method("_GateLinearMethod", "UnquantizedLinearMethod"))
        self.assertEqual(self.refused({"a": plain, "b": gate, "c": SimpleNamespace(quant_method=None)}), "")

        def moe(backend):
            method = self.method("UnquantizedFusedMoEMethod", unquantized_backend=SimpleNamespace(name=backend))
            return {"mlp.experts": SimpleNamespace(quant_method=method)}

        self.assertEqual(self.refused(moe("TRITON")), "")
        for backend in ("FLASHINFER_TRTLLM", "FLASHINFER_CUTLASS", "AITER", "MOONEP", "CPU", "XPU", "NEW"):
            said = self.refused(moe(backend))
            self.assertIn(f"backend {backend} reorders or packs expert weights", said)
            self.assertIn("(layer mlp.experts)", said)
            self.assertEqual(self.refused(moe(backend), {"mlp.experts": None}), "")
            self.assertIn(
                "no regular way (layer mlp.experts)", self.refused(moe(backend), {"mlp.experts": "no regular way"})
            )
        wrapped = self.method("FusedMoEModularMethod", old_quant_method=moe("AITER")["mlp.experts"].quant_method)
        self.assertIn("backend AITER", self.refused({"x": SimpleNamespace(quant_method=wrapped)}))
        fp8 = SimpleNamespace(quant_method=self.method("Fp8LinearMethod"))
        said = self.refused({"one": fp8, "two": fp8, "three": fp8})
        self.assertIn("Fp8LinearMethod holds weights in a form derived at load (layer one and 2 more)", said)
        cached = SimpleNamespace(quant_method=self.method("CompressedTensorsKVCacheMethod", "BaseKVCacheMethod"))
        self.assertEqual(self.refused({"attn": cached, "one": fp8}, {"one": None}), "")
        for method, packs in (
            (plain.quant_method, False),
            (cached.quant_method, False),
            (wrapped, True),
            (fp8.quant_method, True),
            (moe("TRITON")["mlp.experts"].quant_method, False),
            (moe("CPU")["mlp.experts"].quant_method, True),
        ):
            layer = SimpleNamespace(quant_method=method)
            self.assertIs(_refusals.packer(layer), (method if method is not wrapped else method.old_quant_method)
                          if packs else None)  # fmt: skip
        self.assertIn("another backend for it, or load the model without", _refusals.advice(fp8))
        self.assertIn("moe_backend, such as 'triton'", _refusals.advice(moe("CPU")["mlp.experts"]))
        hook = {"process_weights_after_loading": lambda self, dtype: None}
        for known in ("MLAAttention", "MMEncoderAttention"):
            self.assertEqual(self.refused({"attn": self.method(known, **hook)}), "")
        self.assertIn(
            "Compressor makes tensors of weights after the load, which weft does not know (layer c)",
            self.refused({"c": self.method("Compressor", **hook)}),
        )
        self.assertEqual(self.refused({"c.quant_method": self.method("Method", **hook, create_weights=1)}), "")
        packed = SimpleNamespace(quant_method=None, cpu_linear=lambda x, w, b: x)
        self.assertIn("WEFT_VLLM_CPU=keep", self.refused({"lm_head": packed}))


if __name__ == "__main__":
    support.main()
