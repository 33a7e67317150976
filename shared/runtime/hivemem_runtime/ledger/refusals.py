"""Why a ledger does not open: nothing here gets better by trying again."""


class DataTooNew(Exception):
    """The data was written by a newer release."""


class BrokenStore(Exception):
    """The file is no SQLite database, or a damaged one."""


class UnfitServer(Exception):
    """A MongoDB before 8.0, or one that is no replica set: no transaction there takes one command. A SQLite before
    3.33, which cannot update many rows by one statement."""
