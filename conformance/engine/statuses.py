"""What the HTTP statuses of an admin interface say."""

import re
from typing import Final

NOT_FOUND: Final = 404
CONFLICT: Final = 409
NOT_OFFERED: Final = frozenset({405, 501})
"""By these an admin interface says that it does not do something at all; also by 404 without a word about what was not found."""
NOT_ALLOWED: Final = frozenset({401, 403})
"""By these it says that the user of the token may not do it."""
NO_SUCH_PATH: Final = re.compile(r"|<.*|(HTTP )?(404 )?(page )?not found|.*/admin/.*", re.DOTALL | re.IGNORECASE)
"""What is said, in whole, of a path that is not there: nothing, a page in HTML, `HTTP 404 Not Found` or the like, or the path itself."""
NAME_REFUSED: Final = frozenset({400, 412, 422})
"""By these it refuses to create something because of its name."""
COUNT_REFUSED: Final = frozenset({400, 406, 412, 422})
"""By these it refuses so many partitions, if it speaks of partitions."""
BUNDLE_REFUSED: Final = frozenset({400, 404, 406, 409, 412, 422})
"""By these it says that a namespace has no such bundle."""
SERVER_ERROR: Final = 500
"""From this status on an admin interface says that it has stumbled itself: the case is run once more before it counts."""
