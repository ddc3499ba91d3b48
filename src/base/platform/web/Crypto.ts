/**
 * The functions of `node:crypto` that an agent needs, for Cloudflare Workers and browsers. Web Crypto computes digests
 * asynchronously only, so SHA-256 is implemented here.
 */

const blockBytes = 64
const rounds = 64

/** The initial state and the constants of the rounds. */
interface Constants {
  readonly state: Int32Array
  readonly rounds: Int32Array
}

/** Returns the first 32 bits of the fractional part of a number. */
const takeFraction = (value: number): number => ((value - Math.floor(value)) * 2 ** 32) | 0

/** Computes the constants from the fractional parts of the square roots and cube roots of prime numbers. */
const computeConstants = (): Constants => {
  const primes: Array<number> = []
  for (let candidate = 2; primes.length < rounds; candidate++)
    if (primes.every((prime) => candidate % prime !== 0)) primes.push(candidate)
  return {
    state: Int32Array.from(primes.slice(0, 8), (prime) => takeFraction(Math.sqrt(prime))),
    rounds: Int32Array.from(primes, (prime) => takeFraction(Math.cbrt(prime)))
  }
}

let known: Constants | undefined

/** Returns the word rotated to the right. */
const rotateRight = (word: number, bits: number): number => (word >>> bits) | (word << (32 - bits))

/** Adds one block to the state. */
const addBlock = (state: Int32Array, constants: Int32Array, words: Int32Array): void => {
  for (let at = 16; at < rounds; at++) {
    const [early, late] = [words[at - 15] ?? 0, words[at - 2] ?? 0]
    const first = rotateRight(early, 7) ^ rotateRight(early, 18) ^ (early >>> 3)
    const second = rotateRight(late, 17) ^ rotateRight(late, 19) ^ (late >>> 10)
    words[at] = (words[at - 16] ?? 0) + first + (words[at - 7] ?? 0) + second
  }
  let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = state
  for (let at = 0; at < rounds; at++) {
    const choice = (e & f) ^ (~e & g)
    const majority = (a & b) ^ (a & c) ^ (b & c)
    const first =
      (h +
        (rotateRight(e, 6) ^ rotateRight(e, 11) ^ rotateRight(e, 25)) +
        choice +
        (constants[at] ?? 0) +
        (words[at] ?? 0)) |
      0
    const second = ((rotateRight(a, 2) ^ rotateRight(a, 13) ^ rotateRight(a, 22)) + majority) | 0
    ;[h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0]
  }
  const round = [a, b, c, d, e, f, g, h]
  round.forEach((word, at) => {
    state[at] = (state[at] ?? 0) + word
  })
}

/** Returns the SHA-256 digest of bytes. */
const computeDigest = (bytes: Uint8Array): Uint8Array<ArrayBuffer> => {
  const constants = (known ??= computeConstants())
  const state = constants.state.slice()
  const padded = new Uint8Array(Math.ceil((bytes.length + 9) / blockBytes) * blockBytes)
  padded.set(bytes)
  padded[bytes.length] = 0x80
  const view = new DataView(padded.buffer)
  view.setBigUint64(padded.length - 8, BigInt(bytes.length) * 8n)
  const words = new Int32Array(rounds)
  for (let start = 0; start < padded.length; start += blockBytes) {
    for (let at = 0; at < 16; at++) words[at] = view.getInt32(start + at * 4)
    addBlock(state, constants.rounds, words)
  }
  const result = new DataView(new ArrayBuffer(32))
  state.forEach((word, at) => result.setInt32(at * 4, word))
  return new Uint8Array(result.buffer)
}

const toHex = (bytes: Uint8Array): string => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")
const toBase64 = (bytes: Uint8Array): string => btoa(String.fromCharCode(...bytes))

/** Returns the SHA-256 digest of text or bytes. Throws for any other algorithm. */
export const hash = (algorithm: string, data: string | Uint8Array, encoding: "hex" | "base64"): string => {
  if (algorithm !== "sha256") throw new Error(`${algorithm} digests need Node, Bun or Deno`)
  const result = computeDigest(typeof data === "string" ? new TextEncoder().encode(data) : data)
  return encoding === "hex" ? toHex(result) : toBase64(result)
}

/** Returns a random UUID. */
export const randomUUID = (): string => crypto.randomUUID()

/** Random bytes with the encodings that `Buffer` has. */
class RandomBytes extends Uint8Array {
  override toString(encoding: "hex" | "base64" | "base64url" = "hex"): string {
    if (encoding === "hex") return toHex(this)
    const text = toBase64(this)
    return encoding === "base64" ? text : text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")
  }
}

/** Returns random bytes. */
export const randomBytes = (size: number): RandomBytes => {
  const bytes = new RandomBytes(size)
  bytes.set(crypto.getRandomValues(new Uint8Array(size)))
  return bytes
}

/** Compares bytes in a time that does not depend on their values. */
export const timingSafeEqual = (left: Uint8Array, right: Uint8Array): boolean => {
  if (left.length !== right.length) throw new RangeError("Input buffers must have the same byte length")
  let difference = 0
  left.forEach((byte, at) => {
    difference |= byte ^ (right[at] ?? 0)
  })
  return difference === 0
}
