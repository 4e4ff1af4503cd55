"""Claims about `vaswani.line_report`."""

from vaswani.line_report import LineReport


def test_report_names_ten_lines_and_counts_the_rest() -> None:
    report = LineReport({"cut": "cut", "never": "never", "bad": "bad"})
    report.add("bad", 7)
    for line in range(1, 13):
        report.add("cut", line)
    assert (
        str(report) == "cut: 12 (lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more)\nbad: 1 (line 7)"
    )
    assert (report.count("cut"), report.count("never")) == (12, 0)


def test_report_of_nothing_is_empty() -> None:
    assert str(LineReport({"cut": "cut"})) == ""
