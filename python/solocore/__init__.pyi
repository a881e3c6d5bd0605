from . import buffers as buffers, client as client, queues as queues, style as style
from .analysis import TESTS as TESTS, Analysis as Analysis, analyze as analyze
from .campaigns import Campaign as Campaign, campaign as campaign
from .errors import Error as Error, InputError as InputError, MachineError as MachineError
from .generation import generate as generate, stream as stream
from .laboratory import (
    Reproduction as Reproduction, Study as Study, experiments as experiments, reproduce as reproduce, study as study,
)
from .sets import TaskSets as TaskSets
from .systems import (
    Plan as Plan, Profile as Profile, Simulation as Simulation, TimeTable as TimeTable, plan as plan, profile as profile,
    schedule_io as schedule_io, simulate as simulate,
)

__version__: str
