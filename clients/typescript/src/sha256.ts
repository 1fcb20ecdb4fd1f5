/** SHA-256 of bytes that come in parts. Browsers have it for whole values alone, and over https only; Node has its own. */

/** Hashes bytes, as `createHash` of Node does. */
export interface Hash {
  update(data: Uint8Array): unknown;
  digest(encoding: "hex"): string;
}

const BLOCK_BYTES = 64;
const PRIMES = Array.from({ length: 310 }, (_, n) => n + 2).filter((n) => isPrime(n));
/** The first 32 bits of the fractions of the square roots and the cube roots of the first primes. */
const BEGIN = PRIMES.slice(0, 8).map((prime) => fractionOf(Math.sqrt(prime)));
const ROUNDS = Int32Array.from(PRIMES.slice(0, 64), (prime) => fractionOf(Math.cbrt(prime)));

/** The hash of SHA-256 in plain JavaScript. */
export class Sha256 implements Hash {
  readonly #state = Int32Array.from(BEGIN);
  readonly #words = new Int32Array(64);
  readonly #block = new Uint8Array(BLOCK_BYTES);
  readonly #view = new DataView(this.#block.buffer);
  #length = 0;

  update(data: Uint8Array): void {
    for (let at = 0; at < data.length; ) {
      const filled = this.#length % BLOCK_BYTES;
      const taken = data.subarray(at, at + BLOCK_BYTES - filled);
      this.#block.set(taken, filled);
      this.#length += taken.length;
      at += taken.length;
      if (this.#length % BLOCK_BYTES === 0) this.#mix();
    }
  }

  digest(_encoding: "hex"): string {
    const bits = this.#length * 8;
    const rest = (this.#length + 9) % BLOCK_BYTES;
    const end = new Uint8Array(9 + (rest ? BLOCK_BYTES - rest : 0));
    end[0] = 0x80;
    new DataView(end.buffer).setBigUint64(end.length - 8, BigInt(bits));
    this.update(end);
    return Array.from(this.#state, (word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
  }

  #mix(): void {
    const [state, words] = [this.#state, this.#words];
    for (let n = 0; n < 64; n++) {
      if (n < 16) words[n] = this.#view.getInt32(n * 4);
      else {
        const [early, late] = [words[n - 15]!, words[n - 2]!];
        const small = turned(early, 7) ^ turned(early, 18) ^ (early >>> 3);
        const large = turned(late, 17) ^ turned(late, 19) ^ (late >>> 10);
        words[n] = words[n - 16]! + small + words[n - 7]! + large;
      }
    }
    let [a, b, c, d, e, f, g, h] = state as unknown as [number, number, number, number, number, number, number, number];
    for (let n = 0; n < 64; n++) {
      const chosen = (e & f) ^ (~e & g);
      const first = (h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + chosen + ROUNDS[n]! + words[n]!) | 0;
      const major = (a & b) ^ (a & c) ^ (b & c);
      const second = ((turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + major) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
    }
    for (const [n, word] of [a, b, c, d, e, f, g, h].entries()) state[n] = state[n]! + word;
  }
}

function turned(word: number, bits: number): number {
  return (word >>> bits) | (word << (32 - bits));
}

function fractionOf(root: number): number {
  return ((root % 1) * 2 ** 32) | 0;
}

function isPrime(number: number): boolean {
  for (let by = 2; by * by <= number; by++) if (number % by === 0) return false;
  return true;
}
