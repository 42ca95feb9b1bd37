"""Commands that refuse an option that is given twice, unless it takes a list."""

from typing import Any

from typer.core import TyperCommand
from typer.core import TyperGroup


class Command(TyperCommand):
    """A command of the program; without this, the last one of equal options counts."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuses repeated options, then reads the arguments."""
        _refuse_repeated(self, ctx, args)
        return super().parse_args(ctx, args)


class Group(TyperGroup):
    """The program, whose own options are single as well."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuses repeated options, then reads the arguments."""
        _refuse_repeated(self, ctx, args)
        return super().parse_args(ctx, args)


def _refuse_repeated(command: Any, ctx: Any, args: list[str]) -> None:
    given = set()
    for parameter in command.make_parser(ctx).parse_args(args=list(args))[2]:
        if parameter.param_type_name != "option" or parameter.multiple:
            continue
        if parameter.name in given:
            names = " or ".join([*parameter.opts, *parameter.secondary_opts])
            ctx.fail(f"{names} is given more than once; give it once")
        given.add(parameter.name)
