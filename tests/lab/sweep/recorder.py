"""A listener that remembers the events of a sweep."""

from gradsurgery.lab.sweep.events import Advanced, Done, Failed, Planned, Warned


class Recorder:
    def __init__(self):
        self.trained, self.stored, self.failed, self.warnings = [], [], {}, []

    def __call__(self, event):
        match event:
            case Planned(runs):
                self.runs = runs
            case Warned(sentence):
                self.warnings.append(sentence)
            case Advanced(run, fraction, metrics):
                self.run_advanced(run, fraction, metrics)
            case Done(run, metrics, trained):
                self.run_done(run, metrics, trained)
            case Failed(run, reason):
                self.failed[run.key] = reason

    def run_advanced(self, run, fraction, metrics):
        pass

    def run_done(self, run, metrics, trained):
        (self.trained if trained else self.stored).append(run.key)
