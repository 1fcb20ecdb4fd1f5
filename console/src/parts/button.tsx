/** Buttons. One that is busy cannot be pressed again. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Icon, type IconName } from "./icon";

export interface ButtonProps {
  /** What it says. An icon alone needs `label`. */
  children?: ComponentChildren;
  label?: string;
  icon?: IconName;
  kind?: "primary" | "danger" | "plain" | "ghost";
  type?: "button" | "submit";
  disabled?: boolean;
  pressed?: boolean;
  /** Busy for as long as the promise is open. */
  onPress?: () => unknown;
}

export function Button({
  children,
  label,
  icon,
  kind = "plain",
  type = "button",
  disabled,
  pressed,
  onPress,
}: ButtonProps) {
  const [isBusy, setBusy] = useState(false);
  const press = async () => {
    const work = onPress?.();
    if (!(work instanceof Promise)) return;
    setBusy(true);
    await work.finally(() => setBusy(false));
  };
  return (
    <button
      type={type}
      class={`button ${kind}${children === undefined ? " square" : ""}`}
      disabled={disabled || isBusy}
      aria-busy={isBusy}
      aria-label={label}
      aria-pressed={pressed}
      title={label}
      onClick={press}
    >
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}
