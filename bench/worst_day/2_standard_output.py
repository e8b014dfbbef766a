"""2: nobody reads the trainer's --json any more; then its reader goes away, as `| head -1` does."""
import signal

from fleet import Fleet, first, seconds


def stopped_reader():
    fleet = Fleet()
    fleet.run()
    fleet.publish(40, "quiet")
    fleet.trainer.stop_reading("out")
    fleet.publish(60, "fault")
    fleet.trainer.reading["out"].set()
    recovered = fleet.recover()
    fleet.drain()
    fleet.trainer.kill(signal.SIGTERM)
    fleet.report("2a standard output that nobody reads", from_offer=True,
                 held_again_once_it_is_read=seconds(recovered), exit=fleet.trainer.finish(),
                 log=first(fleet.trainer.said("tandard output")))
    fleet.close()


def reader_gone():
    fleet = Fleet()
    fleet.run()
    fleet.publish(40, "quiet")
    trainer = fleet.trainer
    trainer.leave = "out"
    fleet.publish(60, "fault")
    lives = trainer.code() is None
    fleet.drain()
    trainer.kill(signal.SIGTERM)
    fleet.report("2b standard output into `head -1`", from_offer=True, trainer="lives" if lives else "ended by itself",
                 exit=trainer.finish(),
                 log=first(trainer.said("tandard output")))
    fleet.close()


stopped_reader()
reader_gone()
