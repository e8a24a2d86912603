"""Pages of ours, read as a browser would."""

from html.parser import HTMLParser

VOID = {"meta", "img", "br", "link", "input", "hr", "circle", "rect", "path"}


class Outline(HTMLParser):
    """Every element with its attributes and the text inside it; refuses tags that do not match."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.words = [], [], ""
        self.feed(text)
        self.close()
        assert not self.open
        self.words = " ".join(self.words.split())

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        assert len(names) == len(set(names)), (tag, names)
        element = {"tag": tag, "text": "", "in": [e["tag"] for e in self.open], **dict(attributes)}
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop()["tag"] == tag
        if tag in ("td", "th", "small"):
            self.handle_data(" ")

    def handle_data(self, data):
        for element in self.open:
            element["text"] += data
        if self.open and self.open[-1]["tag"] not in ("style", "script"):
            self.words += f"{data} "

    def every(self, *tags):
        return [element for element in self.elements if element["tag"] in tags]

    def values(self, *keys):
        """What the attributes of these names hold, on all elements."""
        return [element[key] for element in self.elements for key in keys if element.get(key)]

    def text(self, name):
        """Text of the element with this id, spaces collapsed."""
        [element] = [e for e in self.elements if e.get("id") == name]
        return " ".join(element["text"].split())
