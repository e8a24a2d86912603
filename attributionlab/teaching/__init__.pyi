from . import course as course
from .course.classes import read_class as read_class
from .live.page import live_page as live_page
from .sealed.grade import GROUPS as GROUPS
from .sealed.grade import grade_submissions as grade_submissions
from .sealed.laboratory import seal_laboratory as seal_laboratory
from .sealed.submission import check_submission as check_submission
