from .gates import Gate as Gate
from .gates import predict as predict
from .gates import skip as skip
