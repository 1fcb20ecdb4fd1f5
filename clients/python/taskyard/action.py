"""Typed actions: the contract between those who submit a task and those who run it.

An `Action` stands in a module that both import, and needs nothing of the handler's own dependencies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Generic, TypeAlias, TypeVar, get_args, get_origin

from .retry_policy import RetryPolicy
from .values.choices import AfterPolicy, OnConflict, OnTargetFailure, UniqueWhile

I = TypeVar("I")  # noqa: E741
O = TypeVar("O")  # noqa: E741
D = TypeVar("D")

Default: TypeAlias = "D | Callable[[I], D] | None"
"""A default of an action: a value, or a function of the input that returns one. None: the server's default."""


class Action(Generic[I, O]):
    """Input and output of a kind of task, and the fields that its tasks have unless they are submitted with others.

    Write `Action[Page, Links]("crawl")`. Input and output are each a dataclass, a TypedDict, a model of pydantic or
    types of JSON. Every default is a value, or a function of the input that returns one.

    Attributes:
        name: The action's name, which stands in `Task.action`.
        defaults: The defaults that were given.

    Args:
        name: The action's name.
        retry: How failed attempts are repeated, the task's `retry_policy`. Default not at all.
        run_timeout: How long one attempt may run, from its start: a longer one ends, and is repeated as `retry` says.
            Default as long as the deadline allows.
        deadline: When the task fails unless it has ended, waiting included: a time with a time zone, or a span from its
            submission. Default 60 s, unless the server has another.
        priority: Lower numbers are claimed first among the tasks of the agent. Default 0.
        labels: Labels to find tasks by. Default none.
        requires: The capabilities that a host must have. Default none.
        target: The serial queue: one task of a target runs at a time. Default none.
        project: The project that tasks belong to. Default none.
        token_limit: The most tokens of a language model that a task may use. Default no limit.
        not_before: When tasks are due: a time with a time zone, or a span from the submission. Default at once.
        hold: Whether tasks are held back until they are resumed. Default False.
        tab_id: The browser tab that tasks are for. Default none.
        selector: The element that tasks are for, as a selector. Default none.
        ref: The element that tasks are for. Default none.
        callback_url: The URL that tasks are posted to when they end. Default none.
        idempotency_key: Two tasks of an agent under one key are made once. Default a random key.
        concurrency_keys: Keys that tasks share with others, at most 4: limits hold for each of them. Default none.
        after_policy: What tasks ask of those that they come `after`: `"success"` or `"ended"`. Default `"success"`.
        unique_key: While another task of the agent has this key, `on_conflict` says what happens. Default none.
        unique_while: For how long a task has its key: `"queued"` or `"live"`. Default `"live"`.
        on_conflict: What happens when the key is taken: `"existing"`, `"reject"` or `"replaceQueued"`. Default
            `"existing"`.
        on_target_failure: What becomes of the target of a task that fails after its start: `"block"` or `"continue"`.
            Default what the settings say of the target, else `"block"`.

    Raises:
        ValueError: The name is empty.
    """

    def __init__(
        self,
        name: str,
        /,
        *,
        retry: Default[RetryPolicy, I] = None,
        run_timeout: Default[timedelta, I] = None,
        deadline: Default[datetime | timedelta, I] = None,
        priority: Default[int, I] = None,
        labels: Default[Mapping[str, str], I] = None,
        requires: Default[Sequence[str], I] = None,
        target: Default[str, I] = None,
        project: Default[str, I] = None,
        token_limit: Default[int, I] = None,
        not_before: Default[datetime | timedelta, I] = None,
        hold: Default[bool, I] = None,
        tab_id: Default[str, I] = None,
        selector: Default[str, I] = None,
        ref: Default[str, I] = None,
        callback_url: Default[str, I] = None,
        idempotency_key: Default[str, I] = None,
        concurrency_keys: Default[Sequence[str], I] = None,
        after_policy: Default[AfterPolicy, I] = None,
        unique_key: Default[str, I] = None,
        unique_while: Default[UniqueWhile, I] = None,
        on_conflict: Default[OnConflict, I] = None,
        on_target_failure: Default[OnTargetFailure, I] = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise ValueError(f"an action has a name, such as 'crawl', not {name!r}")
        self.name: Final = name
        given: dict[str, Any] = {
            "retry_policy": retry,
            "run_timeout": run_timeout,
            "deadline": deadline,
            "priority": priority,
            "labels": labels,
            "requires": requires,
            "target": target,
            "project": project,
            "token_limit": token_limit,
            "not_before": not_before,
            "hold": hold,
            "tab_id": tab_id,
            "selector": selector,
            "ref": ref,
            "callback_url": callback_url,
            "idempotency_key": idempotency_key,
            "concurrency_keys": concurrency_keys,
            "after_policy": after_policy,
            "unique_key": unique_key,
            "unique_while": unique_while,
            "on_conflict": on_conflict,
            "on_target_failure": on_target_failure,
        }
        self.defaults: Final[Mapping[str, Any]] = {field: value for field, value in given.items() if value is not None}

    def __repr__(self) -> str:
        return f"Action({self.name!r})"

    @property
    def input_type(self) -> Any:
        """The type of the input.

        Raises:
            TypeError: The action was made without its types.
        """
        return self._types()[0]

    @property
    def output_type(self) -> Any:
        """The type of the output.

        Raises:
            TypeError: The action was made without its types.
        """
        return self._types()[1]

    def fields_for(self, value: I) -> dict[str, Any]:
        """Find the fields that the task of an input has by default.

        Args:
            value: The input.

        Returns:
            Fields of `NewTask`. Those whose function has returned None are left out.
        """
        fields = {}
        for field, default in self.defaults.items():
            found = default(value) if callable(default) else default
            if found is not None:
                fields[field] = found
        return fields

    def _types(self) -> tuple[Any, Any]:
        # `Action[A, B](...)` notes its types on the object, once it is made; a class that is derived has them itself.
        kinds = getattr(self, "__orig_class__", None)
        candidates = [kinds, *(base for cls in type(self).__mro__ for base in getattr(cls, "__orig_bases__", ()))]
        for candidate in candidates:
            types = get_args(_as_action(candidate))
            if len(types) == 2 and not any(isinstance(each, TypeVar) for each in types):
                return types[0], types[1]
        raise TypeError(f"the action {self.name!r} has no types: write Action[Input, Output]({self.name!r})")


def _as_action(kind: Any) -> Any:
    """The form `Action[..., ...]` of a class with its types, such as `Crawl[Page]`; None if it has none."""
    origin = get_origin(kind)
    if origin is Action:
        return kind
    if not isinstance(origin, type) or not issubclass(origin, Action):
        return None
    types = dict(zip(getattr(origin, "__parameters__", ()), get_args(kind), strict=False))
    for base in getattr(origin, "__orig_bases__", ()):
        free = getattr(base, "__parameters__", ())
        if all(each in types for each in free):
            found = _as_action(base[tuple(types[each] for each in free)] if free else base)
            if found is not None:
                return found
    return None
