from hypothesis import settings

# A machine that is busy with other things makes no property false.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
