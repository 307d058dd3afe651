"""Wrong and right solutions of module 14's bonus notebook, tracing, as small edits of the reference."""

WRONG = [
    {"name": "scope-closed-is-whoever-is-on-top", "cell": "hear-scope",
     "old": """        closed = None
        while closed is not entry:
            i, closed = lane.open.pop()
            lane.close(i, now)""",
     "new": """        i, _ = lane.open.pop()
        lane.close(i, now)""",
     "caught": "test-hear-scope: closed out of order", "says": "look for this entry"},
    {"name": "scope-inner-ones-never-end", "cell": "hear-scope",
     "old": "            lane.close(i, now)", "new": "        lane.close(i, now)",
     "caught": "test-hear-scope: closed out of order", "says": "never ended"},
    {"name": "scope-by-name", "cell": "hear-scope",
     "old": """        while closed is not entry:
            i, closed = lane.open.pop()
""",
     "new": """        while closed is None or closed.name != entry.name:
            i, closed = lane.open.pop()
""",
     "caught": "test-hear-scope: the same name inside itself, closed out of order", "says": "compare with `is`"},
    {"name": "scope-pops-before-it-looks", "cell": "hear-scope",
     "old": "elif any(known is entry for _, known in reversed(lane.open)):", "new": "else:",
     "caught": "test-hear-scope: closed out of order", "says": "look before you pop"},
    {"name": "scope-from-the-bottom-of-the-stack", "cell": "hear-scope",
     "old": """        closed = None
        while closed is not entry:
            i, closed = lane.open.pop()
            lane.close(i, now)""",
     "new": """        at = next(k for k, (_, known) in enumerate(lane.open) if known is entry)
        for i, _ in lane.open[at:]:
            lane.close(i, now)
        del lane.open[at:]""",
     "caught": "test-hear-scope: the same entry twice", "says": "start from the top"},
    {"name": "scope-without-its-place", "cell": "hear-scope", "old": "lane.open.append((lane.add(-1, lane.here",
     "new": "lane.open.append((lane.add(-1, 0",
     "caught": "test-hear-scope: what and where", "says": "lane.here"},
    {"name": "fit-siblings-overlap", "cell": "fit-inside", "old": "free[parent], free[i] = ends[i], starts[i]",
     "new": "free[i] = starts[i]",
     "caught": "test-fit-inside: the example", "says": "elder sibling has ended"},
    {"name": "fit-ends-after-the-parent", "cell": "fit-inside",
     "old": "min(max(ends[i], starts[i]), limit)", "new": "max(ends[i], starts[i])",
     "caught": "test-fit-inside: the example", "says": "ends after its parent"},
    {"name": "fit-copies", "cell": "fit-inside", "old": "    free = ",
     "new": "    starts, ends = list(starts), list(ends)\n    free = ",
     "caught": "test-fit-inside: the example", "says": "changed in place"},
    {"name": "fit-last-slice-for-no-parent", "cell": "fit-inside", "old": "last if parent < 0 else ends[parent]",
     "new": "max(last, ends[parent])",
     "caught": "test-fit-inside: the example"},
    {"name": "fit-begins-at-zero", "cell": "fit-inside", "old": "[first]", "new": "[0]",
     "caught": "test-fit-inside: before the first and after the last moment", "says": "not 0"},
    {"name": "self-times-are-totals", "cell": "self-times", "old": "            own[parent] -= end - start",
     "new": "            pass",
     "caught": "test-self-times: self times", "says": "these are the totals"},
    {"name": "self-times-without-roots", "cell": "self-times", "old": "        if parent >= 0:\n            own",
     "new": "        if True:\n            own",
     "caught": "test-self-times: self times", "says": "parents[i] is -1"},
    {"name": "self-times-slice-0-has-no-children", "cell": "self-times", "old": "parent >= 0", "new": "parent > 0",
     "caught": "test-self-times: self times", "says": "slice 0 may be a parent"},
    {"name": "outermost-asks-the-parent-only", "cell": "outermost",
     "old": """        while stack and stack[-1] != parent:
            open_now[keys[stack.pop()]] -= 1
        first.append(not open_now[key])""",
     "new": "        first.append(parent < 0 or keys[parent] != key)",
     "caught": "test-outermost: f calls g calls f; then f again", "says": "only the parent"},
    {"name": "outermost-never-over", "cell": "outermost",
     "old": """        while stack and stack[-1] != parent:
            open_now[keys[stack.pop()]] -= 1
""",
     "new": "",
     "caught": "test-outermost: f calls g calls f; then f again", "says": "was over"},
    {"name": "outermost-whether-not-how-many", "cell": "outermost", "old": "] -= 1", "new": "] = 0",
     "caught": "test-outermost: twice inside itself, one after the other", "says": "count how many"},
    {"name": "outermost-all-ancestors", "cell": "outermost",
     "old": """    for i, (parent, key) in enumerate(zip(parents, keys)):
        while stack and stack[-1] != parent:
            open_now[keys[stack.pop()]] -= 1
        first.append(not open_now[key])
        open_now[key] += 1
        stack.append(i)
""",
     "new": """    for parent, key in zip(parents, keys):
        while parent >= 0 and keys[parent] != key:
            parent = parents[parent]
        first.append(parent < 0)
""",
     "caught": "test-outermost: and few looks at each parent", "says": "all its ancestors"},
    {"name": "row-counts-outermost-calls", "cell": "sum-by-key", "old": "row[0] += 1", "new": "row[0] += is_first",
     "caught": "test-sum-by-key: four calls of down", "says": "a call counts"},
    {"name": "row-total-of-every-instance", "cell": "sum-by-key", "old": "total_ns if is_first else 0",
     "new": "total_ns",
     "caught": "test-sum-by-key: its total time", "says": "counted again"},
    {"name": "row-self-of-the-outermost", "cell": "sum-by-key", "old": "row[1] += self_ns",
     "new": "row[1] += self_ns if is_first else 0",
     "caught": "test-sum-by-key: its self time", "says": "all of them count"},
    {"name": "row-drops-empty-labels", "cell": "sum-by-key", "old": "if key is not None:", "new": "if key:",
     "caught": "test-sum-by-key: an empty label is a label"},
    {"name": "microseconds-in-milliseconds", "cell": "microseconds",
     "old": "{time_ns // 1000}.{time_ns % 1000:03d}", "new": "{time_ns // 10**6}.{time_ns % 10**6:06d}",
     "caught": "test-microseconds: 1,234,567 ns", "says": "milliseconds"},
    {"name": "microseconds-without-zeros", "cell": "microseconds", "old": ":03d", "new": "",
     "caught": "test-microseconds: 1,002 ns", "says": "leading zeros"},
    {"name": "microseconds-through-a-float", "cell": "microseconds",
     "old": "f\"{time_ns // 1000}.{time_ns % 1000:03d}\"", "new": "f\"{time_ns / 1000:.3f}\"",
     "caught": "test-microseconds: three years and a nanosecond", "says": "sixteen digits"},
]

RIGHT = [
    {"name": "scope-by-its-last-place", "cell": "hear-scope", "code": """
#| export
def hear_scope(lane, opened, entry, now):
    if opened:
        index = lane.add(-1, lane.here, now, -1)
        lane.open.append((index, entry))
        return
    places = [at for at, (_, known) in enumerate(lane.open) if known is entry]
    if not places:
        return
    while len(lane.open) > places[-1]:
        lane.close(lane.open.pop()[0], now)
"""},
    {"name": "fit-with-a-helper", "cell": "fit-inside", "code": """
#| export
def _clip(x, low, high):
    return high if x > high or low > high else max(x, low)


def fit_inside(parents, starts, ends, first, last):
    room = {-1: first}
    for i in range(len(parents)):
        around = parents[i]
        limit = ends[around] if around >= 0 else last
        starts[i] = _clip(starts[i], room[around], limit)
        ends[i] = _clip(ends[i], starts[i], limit)
        room[around] = ends[i]
        room[i] = starts[i]
"""},
    {"name": "self-times-by-children", "cell": "self-times", "code": """
#| export
def self_times(parents, starts, ends):
    inside = {}
    for i, parent in enumerate(parents):
        inside[parent] = inside.get(parent, 0) + ends[i] - starts[i]
    return [ends[i] - starts[i] - inside.get(i, 0) for i in range(len(parents))]
"""},
    {"name": "row-from-a-zip", "cell": "sum-by-key", "code": """
#| export
def sum_by_key(keys, own, total, first):
    rows = {key: [0, 0, 0] for key in keys if key is not None}
    for at, key in enumerate(keys):
        if key in rows:
            calls, self_ns, total_ns = rows[key]
            rows[key] = [calls + 1, self_ns + own[at], total_ns + (total[at] if first[at] else 0)]
    return rows
"""},
    {"name": "microseconds-by-divmod", "cell": "microseconds", "code": """
#| export
def microseconds(time_ns):
    whole, rest = divmod(int(time_ns), 1000)
    return str(whole) + "." + str(rest).zfill(3)
"""},
]
