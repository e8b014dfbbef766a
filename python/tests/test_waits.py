"""Every wait ends by Ctrl-C, by interrupt() and with its task; sessions outlive neither fork nor interpreter."""

import asyncio
import concurrent.futures
import contextlib
import dis
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
import weakref
from unittest import mock

import numpy as np

import support
import weft_fabric as weft
from support import BOUND, change, pair, quiet, site, take, weights
from weft_fabric import _aside, _handle, _library, _session, _wait

SOON = 20.0  # seconds: far more than a slice, far less than any of the waits


@contextlib.contextmanager
def ctrl_c(after=0.3):
    """SIGINT for this process after a while, as a terminal sends it."""
    timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def cut(call, handle, at):
    """Makes a call with a handle, and has Ctrl-C end it at one of the places in _handle.py where Python looks for
    signals; whether there are so many."""
    names, left = {}, [at]  # of a frame: the instruction before

    def trace(frame, event, argument):
        if frame.f_code.co_filename != _handle.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            before = names.get(frame, "")
            names[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            left[0] -= before == "RESUME" or before.startswith("CALL")
            if left[0] < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        call(handle)
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    return left[0] < 0


class CtrlC(unittest.TestCase):
    def test_a_call_that_is_cut_at_its_edges(self):
        """Whatever Ctrl-C cut, no call is left under way, and others use the handle and close it."""

        def plain(handle):
            with handle:
                pass

        def by_stack(handle):
            with contextlib.ExitStack() as calls:
                calls.enter_context(handle)

        for use in (plain, by_stack):
            handles, given = [], []  # none is collected while another is cut
            while not handles or was_cut:
                handles.append(_handle.Handle(1, "the handle", given.append))
                was_cut = cut(use, handles[-1], len(handles) - 1)
                with concurrent.futures.ThreadPoolExecutor(1) as other:
                    other.submit(use, handles[-1]).result()
                handles[-1].close()
            self.assertGreater(len(handles), 5)
            self.assertEqual(len(given), len(handles))

    def ends(self, wait):
        start = time.monotonic()
        with self.assertRaises(KeyboardInterrupt), ctrl_c():
            wait()
            time.sleep(BOUND)
        self.assertLess(time.monotonic() - start, SOON)

    def test_waits_of_both_ends(self):
        trained, served = weights(), weights()
        with pair(trained, served) as (trainer, rollout):
            change(trained, 1)
            trainer.publish(1)
            self.ends(lambda: trainer.wait(1, ["b"], BOUND))
            self.ends(lambda: trainer.wait(1, ["b"]))
            take(rollout, 1)
            self.ends(lambda: rollout.staged(timeout=None))
            self.ends(lambda: rollout.staged(timeout=BOUND))
            list(rollout.events()), list(trainer.events())
            self.ends(lambda: list(rollout.events(timeout=None)))
            self.ends(lambda: asyncio.run(rollout.staged_async()))
            change(trained, 2)
            trainer.publish(2)
            take(rollout, 2)  # the session is well

    def test_manual_progress(self):
        with weft.Trainer(site(session__progress="manual"), weights(), log=quiet) as trainer:
            self.ends(lambda: trainer.progress(BOUND))
            self.ends(lambda: trainer.events(timeout=None).__next__())

    def test_asking_for_a_layout(self):
        nobody = site(trainer__listen="127.0.0.1:1")
        self.ends(lambda: weft.Layout.fetch(nobody, "a", timeout=BOUND))

    @unittest.skipUnless(support.FABRIC, "this build knows no libfabric")
    def test_an_open_that_waits_for_its_interface(self):
        away = site(provider="tcp", trainer__address="weft-is-away")
        self.ends(lambda: weft.Trainer(away, weights(), log=quiet))

    def test_an_open_that_is_left_owns_what_c_reads(self):
        begun, leave, kept = threading.Event(), threading.Event(), []

        def open_(site, layout, options, out):
            begun.set()
            leave.wait(BOUND)
            return _library.lib.WEFT_E_STATE

        def opened():
            layout = weft.Layout(weights())
            parts = [np.zeros(1, weft._binding.SLICE) for _ in range(2)]
            kept.extend(weakref.ref(part) for part in parts)
            _session.Session(site(), None, layout, open_, "slow", quiet, parts[0], [(None, parts[1])])

        self.ends(opened)
        gc.collect()
        self.assertTrue(begun.is_set())
        self.assertTrue(all(part() is not None for part in kept))
        leave.set()

    def test_a_snapshot_that_comes_slowly(self):
        trained = {"w": np.random.default_rng(1).standard_normal(1 << 22, np.float32)}
        with weft.Trainer(site(peers__rate_limit="8Mbit/s"), trained, log=quiet) as trainer:
            served = {"w": np.zeros(1 << 22, np.float32)}
            with weft.Rollout(site(trainer, commit__deadline="60s"), "a", served, empty=True, log=quiet) as rollout:
                staged = rollout.staged(timeout=BOUND)
                self.assertEqual(staged.kind, "snapshot")
                self.ends(lambda: rollout.commit(staged))
                self.assertIsNone(rollout.held)
                self.assertFalse(rollout._handle.take_interrupt())  # the next wait is not ended too
                self.assertFalse(rollout._takes_snapshot)


class Interruptible(unittest.TestCase):
    """Ctrl-C at the worst moments: nobody returns while the call runs, because C uses what the caller frees."""

    def interrupted(self, call, interrupt, running, moment):
        """One call, with KeyboardInterrupt out of the named method of threading, while the call runs."""
        owner, name = moment
        plain = getattr(owner, name)
        times = iter(range(3))

        def cut(*arguments):
            result = plain(*arguments)
            if threading.current_thread() is threading.main_thread() and next(times, None) is not None:
                while not running:
                    time.sleep(0.001)
                raise KeyboardInterrupt
            return result

        with mock.patch.object(owner, name, cut), self.assertRaises(KeyboardInterrupt):
            _wait.interruptible(call, interrupt)

    def test_nobody_leaves_before_the_call_is_over(self):
        for moment in ((threading.Thread, "start"), (threading.Event, "wait")):
            ended, stop, running = [], [], []

            def call():
                running.append(True)
                while not stop:
                    time.sleep(0.001)
                time.sleep(0.2)
                ended.append(True)

            with self.subTest(moment=moment[1]):
                self.interrupted(call, lambda: stop.append(True), running, moment)
                self.assertTrue(ended)

    def test_a_call_that_has_not_begun_never_begins(self):
        begun = []

        def start(thread):
            raise KeyboardInterrupt

        with mock.patch.object(threading.Thread, "start", start), self.assertRaises(KeyboardInterrupt):
            _wait.interruptible(lambda: begun.append(True), lambda: None)
        self.assertEqual(begun, [])


class Deadlines(unittest.TestCase):
    def test_milliseconds_are_those_that_c_takes(self):
        for seconds, ms in ((0, 0), (-1, 0), (1e-9, 1), (0.0501, 51), (1e9, 2**32 - 1), (float("inf"), 2**32 - 1)):
            self.assertEqual(_wait.ms_of(seconds), ms)
        self.assertEqual(_wait.Deadline(float("inf")).slice(), _wait.SLICE_MS)


class Interrupted(unittest.TestCase):
    def test_another_thread_ends_a_wait_and_the_gil_is_free_meanwhile(self):
        with pair() as (trainer, rollout):
            info = _library.sized("weft_staged_info")
            answers = []
            with rollout._handle as session:  # one long call: whoever holds the GIL in it is never interrupted
                waiter = threading.Thread(target=lambda: answers.append(_library.lib.weft_staged(session, 60000, info)))
                waiter.start()
                time.sleep(0.3)
                _library.lib.weft_interrupt(session)
                waiter.join(SOON)
            self.assertEqual(answers, [_library.lib.WEFT_E_TIMEOUT])
            for wait in (lambda: rollout.staged(timeout=BOUND), lambda: trainer.wait(0, ["b"], BOUND)):
                end = rollout if wait.__code__.co_freevars == ("rollout",) else trainer
                threading.Timer(0.2, end.interrupt).start()
                start = time.monotonic()
                with self.assertRaisesRegex(weft.TimeoutExpired, "interrupted"):
                    wait()
                self.assertLess(time.monotonic() - start, SOON)

    def test_an_interrupt_ends_one_wait(self):
        with pair() as (trainer, rollout):
            for wait in (lambda: list(rollout.events(timeout=None)), lambda: rollout.staged(timeout=None)):
                threading.Timer(0.2, rollout.interrupt).start()
                with contextlib.suppress(weft.TimeoutExpired):
                    wait()
                self.assertIsNone(rollout.staged(timeout=0.2))
            trainer.interrupt()
            for text in ("interrupted", "is not held by b"):
                with self.assertRaisesRegex(weft.TimeoutExpired, text):
                    trainer.wait(0, ["b"], 0.0)

    def test_a_single_name_is_no_list_of_letters(self):
        with pair() as (trainer, rollout):
            with self.assertRaisesRegex(weft.TimeoutExpired, "is not held by bb$"):
                trainer.wait(0, "bb", 0.0)

    def test_close_in_the_way_of_a_call_closes_nothing(self):
        with pair() as (trainer, rollout):
            waiter = threading.Thread(target=rollout.staged, args=(1.0,))
            waiter.start()
            time.sleep(0.2)
            with self.assertRaisesRegex(weft.CallError, "running"):
                rollout.close()
            waiter.join()
            self.assertFalse(rollout.closed)

    def test_a_call_that_ctrl_c_cut_short_as_it_ended_does_not_keep_the_session_open(self):
        """Handlers of signals run between any two steps of Python, so the end of a call may not be taken down."""
        with pair() as (trainer, rollout):
            rollout._handle.__enter__()
            rollout.close()
            self.assertTrue(rollout.closed)

    def test_a_log_that_closes_its_session_is_refused_by_c(self):
        said = []

        def log(level, line):
            if not said:
                said.append(line)
                trainer.close()

        with weft.Trainer(site(), weights(), log=log) as trainer:
            with self.assertRaisesRegex(weft.CallError, "close"):
                list(trainer.events())
            self.assertFalse(trainer.closed)


class Asyncio(unittest.IsolatedAsyncioTestCase):
    async def test_a_version_by_asyncio(self):
        trained, served = weights(), weights()
        async with weft.Trainer(site(), trained, log=quiet) as trainer:
            async with weft.Rollout(site(trainer), "a", served, log=quiet) as rollout:
                for version in (1, 2):
                    change(trained, version)
                    published, staged = await asyncio.gather(
                        trainer.publish_async(version), rollout.staged_async(BOUND)
                    )
                    while staged is None:
                        staged = await rollout.staged_async(1.0)
                    self.assertEqual(await rollout.commit_async(staged), published.target)
                    await trainer.wait_async(version, ["a"], BOUND)
                self.assertTrue(support.same(trained, served))
                kinds = []
                async for event in rollout.events_async():
                    kinds.append(event.kind)
                    if event.kind == "staged" and event.version.number == 2:
                        break
                self.assertEqual(kinds[0], "joined")

    async def test_a_cancelled_wait_ends_and_the_session_goes_on(self):
        with pair() as (trainer, rollout):
            for wait in (rollout.staged_async(BOUND), trainer.wait_async(0, ["b"], BOUND)):
                task = asyncio.create_task(wait)
                await asyncio.sleep(0.2)
                start = time.monotonic()
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.assertLess(time.monotonic() - start, SOON)
            self.assertIsNone(rollout.staged())
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(rollout.staged_async(), 0.2)

    async def test_a_cancelled_wait_that_ends_by_itself_leaves_the_next_one_alone(self):
        with pair() as (trainer, rollout):
            plain = rollout.staged

            def staged(timeout):
                result = plain(0.0)
                time.sleep(0.3)  # the task is cancelled now, and the wait has its result
                return result

            with mock.patch.object(rollout, "staged", staged):
                task = asyncio.create_task(rollout.staged_async(BOUND))
                await asyncio.sleep(0.1)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
            self.assertIsNone(await rollout.staged_async(0.2))

    async def test_a_task_that_is_cancelled_twice_leaves_when_the_call_is_over(self):
        begun, ended = threading.Event(), []

        def call():
            begun.set()
            time.sleep(0.5)
            ended.append(True)

        task = asyncio.create_task(_aside.aside(call))
        await asyncio.to_thread(begun.wait) if hasattr(asyncio, "to_thread") else await asyncio.sleep(0.2)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0.05)
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertTrue(ended)


class Processes(unittest.TestCase):
    def run_code(self, code, *options):
        return subprocess.run(
            [sys.executable, "-B", *options, "-c", code],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=support.ROOT / "python" / "tests",
        )

    def test_a_forked_child_is_refused_and_the_parent_goes_on(self):
        done = self.run_code("""
import os, sys, support, weft_fabric as weft
trained, served = support.weights(), support.weights()
with support.pair(trained, served) as (trainer, rollout):
    child = os.fork()
    if not child:
        calls = (rollout.staged, rollout.stats, lambda: trainer.publish(1), lambda: rollout.held, rollout.interrupt)
        for call in calls:
            try:
                call()
                os._exit(2)
            except weft.ClosedError as error:
                assert "forked" in str(error), error
        sys.exit(0)  # with exits of `with` blocks, finalizers and exit handlers
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    support.change(trained, 1)
    trainer.publish(1)
    support.take(rollout, 1)
    assert support.same(trained, served)
print("well")
""")
        self.assertEqual((done.stdout, done.returncode), ("well\n", 0), done.stderr)

    def test_a_forked_child_opens_its_own(self):
        done = self.run_code("""
import os, support, weft_fabric as weft
trained = support.weights()
with weft.Trainer(support.site(), trained, log=support.quiet) as trainer:
    child = os.fork()
    if not child:
        with support.pair() as (own, rollout):
            support.take(rollout, 0)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("well")
""")
        self.assertEqual((done.stdout, done.returncode), ("well\n", 0), done.stderr)

    def test_a_forked_child_finds_no_lock_taken(self):
        """A thread that asks for a type of C for the first time holds a lock of cffi, while another thread forks."""
        done = self.run_code("""
import os, signal, tempfile, threading, support, weft_fabric as weft
from weft_fabric._library import ffi
folder = tempfile.TemporaryDirectory()
store, parsing = weft.Store(folder.name), threading.Event()
parse = ffi._parser.parse_type

def slowly(text):
    parsing.set()
    threading.Event().wait(0.3)  # the fork comes while the lock is held, or waits until it is free
    return parse(text)

ffi._parser.parse_type = slowly
trainer = weft.Trainer(support.site(), support.weights(), log=support.quiet)
thread = threading.Thread(target=lambda: ffi.new("uint16_t[7][3]"))
parsing.clear()
thread.start()
parsing.wait()
child = os.fork()
if not child:
    signal.alarm(20)
    for call in (lambda: trainer.held, trainer.stats, lambda: store.versions):
        try:
            call()
            os._exit(2)
        except weft.ClosedError as error:
            assert "forked" in str(error), error
    ffi.new("uint32_t[7][3]")
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
thread.join()
trainer.publish(1)
trainer.close()
store.close()
print("well")
""")
        self.assertEqual((done.stdout, done.returncode), ("well\n", 0), done.stderr)

    def test_the_interpreter_ends_with_live_sessions(self):
        for ending in ("", "sys.exit(0)", "raise SystemExit(0)"):
            done = self.run_code(
                f"""
import sys, threading, support, weft_fabric as weft
trainer = weft.Trainer(support.site(), support.weights(), log=lambda level, line: None)
rollout = weft.Rollout(support.site(trainer), "a", support.weights(), log=print)
rollout.ring = rollout
threading.Thread(target=rollout.staged, args=(None,), daemon=True).start()
support.take
print("end", flush=True)
{ending}
""",
                "-X",
                "dev",
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.split("\n")[0], "end")
            self.assertNotRegex(done.stderr, "Fatal|Traceback")

    def test_a_session_that_nobody_closed_is_told_of_and_closed(self):
        trainer = weft.Trainer(site(), weights(), log=quiet)
        handle = trainer._handle
        with self.assertWarns(ResourceWarning):
            del trainer
        self.assertTrue(handle.closed)

    def test_handlers_of_signals_stay_pythons(self):
        """Debian 12's libfabric brings a library along that takes them when it is opened."""
        done = self.run_code("""
import signal
before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
import os, weft_fabric as weft
weft.providers()
signal.signal(signal.SIGTERM, lambda *a: print("terminated"))
os.kill(os.getpid(), signal.SIGTERM)
try:
    os.kill(os.getpid(), signal.SIGINT)
    import time; time.sleep(5)
except KeyboardInterrupt:
    print("interrupted")
""")
        self.assertEqual((done.stdout, done.returncode), ("terminated\ninterrupted\n", 0), done.stderr)


if __name__ == "__main__":
    support.main()
