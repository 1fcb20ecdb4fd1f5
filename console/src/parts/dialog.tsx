/**
 * Dialogs, over the page until they are closed. The browser keeps the focus inside, and Escape closes.
 *
 * `openDialog((close) => <FormDialog title="Submit a task" submit="Submit" onSubmit={...} close={close}>...)`.
 */
import { signal } from "@preact/signals";
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { errorFrom } from "@client/errors";
import { Button } from "./button";

type Close = () => void;
const open = signal<readonly { id: number; content: VNode }[]>([]);
let lastId = 0;

/** Shows a dialog until it calls what it is given. */
export function openDialog(render: (close: Close) => VNode): void {
  lastId += 1;
  const id = lastId;
  const close = () => {
    open.value = open.value.filter((each) => each.id !== id);
  };
  open.value = [...open.value, { id, content: render(close) }];
}

/** Where dialogs appear; once, in the shell. */
export function Dialogs() {
  return (
    <>
      {open.value.map(({ id, content }) => (
        <div key={id}>{content}</div>
      ))}
    </>
  );
}

export interface DialogProps {
  title: string;
  close: Close;
  wide?: boolean;
  /** Whether a click beside it leaves it open, since something would be lost. */
  stays?: boolean;
  footer?: ComponentChildren;
  children: ComponentChildren;
}

export function Dialog({ title, close, wide, stays, footer, children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => element.current?.showModal(), []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes dialogs by itself
    <dialog
      ref={element}
      class={wide ? "wide" : ""}
      aria-labelledby={heading}
      onClose={close}
      onClick={(event) => !stays && event.target === element.current && close()}
    >
      <div class="dialog-body">
        <header class="dialog-head">
          <h2 id={heading}>{title}</h2>
          <Button kind="ghost" icon="close" label="Close" onPress={close} />
        </header>
        <div class="dialog-content">{children}</div>
        {footer && <footer class="dialog-foot">{footer}</footer>}
      </div>
    </dialog>
  );
}

export interface FormDialogProps extends Omit<DialogProps, "footer"> {
  /** What the button says. */
  submit: string;
  danger?: boolean;
  disabled?: boolean;
  /** Does it. The dialog closes then, or shows why it failed and stays. */
  onSubmit: () => unknown;
}

export function FormDialog({ submit, danger, disabled, onSubmit, children, ...dialog }: FormDialogProps) {
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const send = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError("");
    try {
      await onSubmit();
      dialog.close();
    } catch (thrown) {
      setError(
        thrown instanceof SyntaxError || thrown instanceof TypeError ? thrown.message : errorFrom(thrown).reason,
      );
      setBusy(false);
    }
  };
  const form = useId();
  const footer = (
    <>
      <Button onPress={dialog.close}>Back</Button>
      <button
        class={`button ${danger ? "danger" : "primary"}`}
        type="submit"
        form={form}
        disabled={disabled || isBusy}
        aria-busy={isBusy}
      >
        {submit}
      </button>
    </>
  );
  return (
    <Dialog {...dialog} stays footer={footer}>
      <form id={form} class="form" onSubmit={send}>
        {children}
        {error && (
          <p class="form-error" role="alert">
            {error}
          </p>
        )}
      </form>
    </Dialog>
  );
}

export interface Question {
  title: string;
  text: ComponentChildren;
  /** What the button says, which names the deed. */
  submit: string;
  danger?: boolean;
  onSubmit: () => unknown;
}

/** Asks before something is done; the deed is done within the dialog, so that its failure is shown there. */
export function ask({ text, ...question }: Question): void {
  openDialog((close) => (
    <FormDialog {...question} close={close}>
      <div>{text}</div>
    </FormDialog>
  ));
}
