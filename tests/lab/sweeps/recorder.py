"""A listener that remembers what a sweep reports."""


class Recorder:
    def __init__(self):
        self.trained, self.stored, self.failed, self.warnings = [], [], {}, []

    def sweep_started(self, runs):
        self.runs = runs

    def warning(self, sentence):
        self.warnings.append(sentence)

    def run_advanced(self, run, fraction, metrics):
        pass

    def run_done(self, run, metrics, trained):
        (self.trained if trained else self.stored).append(run.key)

    def run_failed(self, run, reason):
        self.failed[run.key] = reason
