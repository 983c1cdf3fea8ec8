"""Reports on stored runs: Pareto fronts, tables and figures, on one HTML page and in the terminal.

    from gradsurgery.lab.reports.report import report

    page = report(records, Path("runs/report"), title="lipschitz, demo")

A report in the order of its files: ``report`` saves the ``figures`` for a paper, then collects the ``answer``, the rows
of the ``tables`` and the data of the interactive ``charts``: a ``front_chart`` for each of the ``views``, and for the
whole sweep a ``mixture_chart``, the ``allowance_slider`` and the ``curves``. Figures and charts share ``axes`` and
``style``. ``page`` renders all of it from the templates in ``assets``. ``index`` is a page for several sweeps,
``inline`` what a notebook shows, and ``terminal`` what the command line prints.
"""
