"""Two hundred cron expressions: common ones, unusual ones, and random ones from a fixed seed."""

from random import Random

WRITTEN = """
0 * * * *
17 * * * *
0 */2 * * *
15 */3 * * *
30 1-23/2 * * *
*/10 2 * * *
* 2 1 * *
* 1 * 10 0
*/7 0 * * *
* 3 * * 0
*/5 9-17 * * 1
0 0 * * *
0 9 * * *
0 9 * * 1-5
0 9 * * mon-fri
30 4 * * 7
30 4 * * 0
0 0 * * sat,sun
0 12 * * 5-7
0 0 1 * *
0 0 15,31 * *
0 0 31 * *
0 0 30 * *
0 0 29 2 *
59 23 31 12 *
0 0 1 1 *
0 0 1 jan-jun/2 *
0 0 1 JAN,JUL *
0 0 1-7 * *
0 0 13 * 5
0 0 1,15 * 1
0 0 31 2,4 1
0 0 */2 * *
0 0 */2 * 1
0 0 */10 * 1-5
0 0 1 * */2
0 0 1-15 * */3
0 0 * * */2
0 0 */2 * */2
0 0 2-30/2 * 1-5/2
0 1 * * *
30 1 * * *
0 2 * * *
15 2 * * *
30 2 * * *
59 2 * * *
0,30 2 * * *
0,30 1-3 * * *
0 3 * * *
0 0-3 * * *
0-59/10 2 * * *
0-59 1 * * 0
0-59 2 * * 0
5 0 * * *
30 23 * * *
0 23,0 * * *
0-59/15 0 * * *
1,2,3,5,8,13,21,34,55 0 1 1,4,10,11 *
00 09 01 01 *
10-20,40-50/5 6,18 * * 3
0-30/10,45 3-5,7 10-20/5,31 * *
""".strip().splitlines()


def _field(random: Random, least: int, most: int, stars: tuple[str, ...]) -> str:
    low, high = sorted(random.sample(range(least, most + 1), 2))
    kind = random.randrange(5)
    if kind == 0:
        return random.choice(stars)
    if kind == 1:
        return f"{low}-{high}/{random.randint(1, most)}"
    if kind == 2:
        return f"{low},{high}"
    return str(low)


def sample_expressions() -> list[str]:
    """The two hundred expressions, the same in every run."""
    random = Random(6)
    found = dict.fromkeys(WRITTEN)
    while len(found) < 200:
        expression = (
            f"{_field(random, 0, 59, ('*/20', '*/25', '0'))} {_field(random, 0, 23, ('*', '*/7', '2', '1-3'))} "
            f"{_field(random, 1, 31, ('*', '*', '*/2', '*/9'))} {_field(random, 1, 12, ('*', '*', '*/3'))} "
            f"{_field(random, 0, 6, ('*', '*', '*/2', '*/3'))}"
        )
        days, months, weekdays = expression.split()[2:]
        both = "*" not in (days, weekdays) and (days + weekdays).count("*") > 0
        # An expression with few months, or with a day that must also be a certain weekday, may not be due in a year.
        if months == "*" or not (both or days in {"30", "31"}):
            found[expression] = None
    return list(found)
