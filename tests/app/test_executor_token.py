"""The tokens of the tab executor: sent to its instances, and shown nowhere (docs/rules.md, Tab executor)."""

from taskyard.v1 import admin_pb2

FOR_ALL, FOR_ONE = "t0ken-of-the-executor", "t0ken-of-one-tab"


async def test_tokens_are_sent_and_shown_neither_in_the_configuration_nor_in_logs(up, hook, tmp_path):
    log = tmp_path / "taskyard.log"
    server = await up(
        {"tabs": {"own": {"url": hook.url, "token": FOR_ONE}, "open": hook.url}, "log": {"file": str(log)}},
        *("--executor", hook.url, "--log-level", "debug"),
        TASKYARD_EXECUTOR_TOKEN=FOR_ALL,
    )
    for tab_id in ("any", "own", "open"):
        task_id = await server.submit(tab_id=tab_id)
        await server.logged("task_done", task_id=task_id)
    sent = [[line for line in head.split("\r\n") if line.startswith("authorization:")] for head in hook.heads]
    assert sent == [[f"authorization: bearer {FOR_ALL}"], [f"authorization: bearer {FOR_ONE}"], []]

    answer = await server.admin.GetConfig(admin_pb2.GetConfigRequest())
    assert answer.sources["executorToken"] == "environment"
    assert answer.config["executorToken"] == "**********"
    assert answer.config["tabs"]["own"]["token"] == "**********"
    assert answer.config["tabs"]["open"] == hook.url
    for text in (str(answer), str(server.lines), str(server.noise), log.read_text()):
        assert FOR_ALL not in text
        assert FOR_ONE not in text


def test_a_token_with_a_line_end_is_refused_in_one_line_that_does_not_show_it(refused):
    refusal = refused(None, TASKYARD_EXECUTOR_TOKEN=f"{FOR_ALL}\n")
    assert refusal.exit_code == 1
    (line,) = refusal.errors
    assert line.startswith("executor_token: must be visible ASCII characters")
    assert FOR_ALL not in "".join([line, *refusal.others])
