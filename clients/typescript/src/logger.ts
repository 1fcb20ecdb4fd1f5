/** Where clients and hosts log. */

/** Takes the lines of a client or a host. `console` is one. */
export interface Logger {
  info(text: string, ...more: unknown[]): void;
  warn(text: string, ...more: unknown[]): void;
  error(text: string, ...more: unknown[]): void;
}

/** Warnings and errors to the console, the rest nowhere. */
export const QUIET_LOGGER: Logger = {
  info: () => {},
  warn: (...args) => console.warn(...args),
  error: (...args) => console.error(...args),
};
