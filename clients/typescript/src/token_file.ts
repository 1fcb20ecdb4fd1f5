/** The token in a file, which is read anew when it changes. */
import { type BigIntStats, readFileSync, statSync } from "node:fs";
import { checkHeader, type Credentials, sourceOf } from "./credentials.js";

/** A file that was written to a moment ago may change again at the same time of the file system. */
const SETTLED_MS = 50;

export class TokenFile implements Credentials {
  readonly tried: string;
  readonly #path: string;
  #token = "";
  #seen: BigIntStats | undefined;

  /** `where` names the place that the path comes from. Throws TypeError if there is no token in the file. */
  constructor(path: string, where: string) {
    if (/^(tyd_|eyJ)/.test(path)) throw new TypeError(`${where}: must be the path of a file, is a token`);
    this.#path = path;
    this.tried = `the token file ${path} from ${sourceOf(where)}`;
    try {
      this.#read();
    } catch (error) {
      throw new TypeError(`${where}: ${(error as Error).message}`);
    }
  }

  token(): string {
    try {
      const file = statSync(this.#path, { bigint: true });
      if (!isSame(file, this.#seen)) this.#read();
    } catch {
      // A file is replaced in steps: until the next one is there, the last token holds.
    }
    return this.#token;
  }

  renew(): boolean {
    try {
      this.#read();
    } catch {
      // As above.
    }
    return true;
  }

  #read(): void {
    // A pipe gives its token once.
    if (this.#seen && !this.#seen.isFile()) return;
    const seen = statSync(this.#path, { bigint: true });
    const token = readFileSync(this.#path, "utf8").trim();
    if (!token) throw new TypeError(`${this.#path} is empty`);
    checkHeader(this.#path, token);
    this.#token = token;
    this.#seen = seen;
  }
}

function isSame(file: BigIntStats, before: BigIntStats | undefined): boolean {
  return (
    Date.now() - Number(file.mtimeMs) > SETTLED_MS &&
    file.mtimeNs === before?.mtimeNs &&
    file.ino === before.ino &&
    file.size === before.size
  );
}
