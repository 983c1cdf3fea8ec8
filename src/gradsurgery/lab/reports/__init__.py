"""Reports on stored runs: Pareto fronts, tables and figures, on one HTML page and in the terminal.

    from gradsurgery.lab.reports.report import write_report

    page = write_report(records, Path("runs/report"), title="lipschitz, demo")

``report`` writes the page of a sweep, ``index`` one for several, ``inline`` what a notebook shows: all by ``page`` from
the templates in ``assets``; ``charts`` has the data of the interactive charts, ``figures`` the files for a paper.
"""
