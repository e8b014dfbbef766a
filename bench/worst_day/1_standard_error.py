"""1: nobody reads the trainer's standard error any more, and 800 strangers come in 2 s."""
import signal
import time

from fleet import Fleet, now, seconds, strangers

fleet = Fleet()
fleet.run()
fleet.publish(40, "quiet")
trainer = fleet.trainer
trainer.stop_reading("err", fill=False)
attack = strangers("garbage", fleet.port, 800, 400)
fleet.publish(15, "fault")
trainer.fill("err")
fleet.publish(45, "fault")
attack.wait()
trainer.reading["err"].set()
recovered = fleet.recover()
fleet.drain()
trainer.stop_reading("err")
strangers("garbage", fleet.port, 800, 800).wait()
time.sleep(0.5)
asked = now()
trainer.kill(signal.SIGTERM)
code = trainer.finish(8)
took = now() - asked
trainer.reading["err"].set()
fleet.report("1 standard error that nobody reads, 800 strangers", held_again_once_it_is_read=seconds(recovered),
             SIGTERM_with_the_pipe_full=f"exit {code} after {took:.1f} s",
             lines_of_the_log=f"{len(trainer.log)}, {len(trainer.said('lines', 'lost'))} say that lines were lost")
