from hypothesis import settings

# A deadline would fail on a busy machine, where the property still holds.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
