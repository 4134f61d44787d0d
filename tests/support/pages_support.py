"""What the tests of HTML pages have in common."""

import html.parser
import json
import re

# What a page could take for its own code, or a script for the end of a line.
HOSTILE = (
    "</script><script>alert(1)</script> <!-- ]]> \"quotes\" 'single' &amp; "
    "<img src=x onerror=alert(1)> \\u003c \\ \u2028 \u2029 \x00 \u05d0\u05d1 "
    "\u202e {{items}} {{title}} ${x} `tick`"
)


class Page(html.parser.HTMLParser):
    """The elements of a page, and the text of each script."""

    def __init__(self, path):
        super().__init__()
        self.tags, self.scripts, self.attributes = [], [], []
        self.text = path.read_text("utf-8")
        self.feed(self.text)
        self.items = json.loads(self.scripts[0])

    def check_is_safe(self, plain):
        """Hostile texts add nothing to the code of a plain page."""
        assert self.tags == plain.tags
        assert self.scripts[1] == plain.scripts[1]
        # Neither could end the script, nor a line of it in an old browser.
        assert not re.search("[<>&\u2028\u2029]", self.scripts[0])

    def check_script(self):
        """The page needs no network, and its script makes text nodes only."""
        assert not [x for x in self.attributes if x[0] in ("src", "href")]
        (policy,) = [
            x for _, x in self.attributes if "default-src" in (x or "")
        ]
        assert policy.startswith(
            "default-src 'none'; style-src 'unsafe-inline';"
        )
        assert "url(" not in self.text and "import" not in self.scripts[1]
        unsafe = "innerHTML", "outerHTML", "insertAdjacent", "document.write"
        assert not [name for name in unsafe if name in self.scripts[1]]

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.tags[-1:] == ["script"]:
            self.scripts[-1] += data
