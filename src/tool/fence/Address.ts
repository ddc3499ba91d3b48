/**
 * Classification of the machine behind an IP address, whatever its notation: decimal, octal and hexadecimal IPv4, short forms,
 * IPv6 with an IPv4 address inside.
 *
 * Source: `hermes-llm.md` §19.5.
 */

/** `metadata` hands out credentials and is never reached; `private` may be allowed; `benchmark` is 198.18.0.0/15. */
export type Kind = "public" | "private" | "benchmark" | "metadata"

type Bytes = ReadonlyArray<number>

const number = (text: string): number | undefined => {
  if (/^0x[0-9a-f]{1,8}$/i.test(text)) return Number.parseInt(text.slice(2), 16)
  if (/^0[0-7]{1,11}$/.test(text)) return Number.parseInt(text, 8)
  return /^(?:0|[1-9]\d{0,9})$/.test(text) ? Number(text) : undefined
}

/** The four bytes of an IPv4 address in any notation that a system understands. */
export const ipv4 = (text: string): Bytes | undefined => {
  const parts = text.split(".").map(number)
  if (parts.length > 4 || parts.some((part) => part === undefined)) return undefined
  const values = parts.filter((part) => part !== undefined)
  const last = values.at(-1) ?? 0
  const first = values.slice(0, -1)
  if (first.some((part) => part > 255) || last >= 256 ** (5 - values.length)) return undefined
  const rest = Array.from({ length: 5 - values.length }, (_, index) => Math.floor(last / 256 ** (4 - values.length - index)) % 256)
  return [...first, ...rest]
}

/** The sixteen bytes of an IPv6 address; a zone is left out. */
export const ipv6 = (text: string): Bytes | undefined => {
  const address = text.replace(/%.*$/s, "")
  if (address.length > 64 || !address.includes(":")) return undefined
  const halves = address.split("::")
  if (halves.length > 2) return undefined
  const groups = (half: string | undefined): Bytes | undefined => {
    if (half === undefined || half === "") return []
    const out: Array<number> = []
    const parts = half.split(":")
    for (const [index, part] of parts.entries()) {
      if (part.includes(".") && index === parts.length - 1) {
        const embedded = /^\d{1,3}(?:\.\d{1,3}){3}$/.test(part) ? ipv4(part.replace(/\b0+(?=\d)/g, "")) : undefined
        if (embedded === undefined) return undefined
        out.push(...embedded)
      } else if (/^[0-9a-f]{1,4}$/i.test(part)) {
        const value = Number.parseInt(part, 16)
        out.push(value >> 8, value & 0xff)
      } else return undefined
    }
    return out
  }
  const head = groups(halves[0])
  const tail = groups(halves[1])
  if (head === undefined || tail === undefined) return undefined
  const missing = 16 - head.length - tail.length
  if (halves.length === 1 ? missing !== 0 : missing < 2) return undefined
  return [...head, ...Array.from({ length: missing }, () => 0), ...tail]
}

const kindOf4 = (bytes: Bytes): Kind => {
  const [a = 0, b = 0, c = 0, d = 0] = bytes
  if (a === 169 && b === 254) return "metadata"
  if (a === 100 && b === 100 && c === 100 && d === 200) return "metadata"
  // Azure's platform address, and the one of Oracle's classic machines.
  if (a === 168 && b === 63 && c === 129 && d === 16 || a === 192 && b === 0 && c === 0 && d === 192) return "metadata"
  if (a === 198 && (b === 18 || b === 19)) return "benchmark"
  const isPrivate = a === 0 || a === 10 || a === 127 || a >= 224 ||
    a === 100 && b >= 64 && b <= 127 ||
    a === 172 && b >= 16 && b <= 31 ||
    a === 192 && (b === 168 || b === 0 && (c === 0 || c === 2) || b === 88 && c === 99) ||
    a === 198 && b === 51 && c === 100 ||
    a === 203 && b === 0 && c === 113
  return isPrivate ? "private" : "public"
}

const startsWith = (bytes: Bytes, ...prefix: Bytes): boolean => prefix.every((byte, index) => bytes[index] === byte)
const zeros = (bytes: Bytes, from: number, to: number): boolean => bytes.slice(from, to).every((byte) => byte === 0)

/** The IPv4 address that an IPv6 address stands for: mapped, translated, tunnelled. */
const embedded = (bytes: Bytes): Bytes | undefined => {
  const low = bytes.slice(12)
  if (zeros(bytes, 0, 10) && (startsWith(bytes.slice(10), 0xff, 0xff) || zeros(bytes, 10, 12))) {
    // `::` and `::1` are addresses of their own.
    return zeros(bytes, 10, 15) && (bytes[15] ?? 0) < 2 ? undefined : low
  }
  if (zeros(bytes, 0, 8) && startsWith(bytes.slice(8), 0xff, 0xff, 0, 0)) return low
  if (startsWith(bytes, 0x00, 0x64, 0xff, 0x9b)) return low
  if (startsWith(bytes, 0x20, 0x02)) return bytes.slice(2, 6)
  // Teredo hides the client's address by its complement.
  if (startsWith(bytes, 0x20, 0x01, 0x00, 0x00)) return low.map((byte) => byte ^ 0xff)
  return startsWith(bytes.slice(8), 0x00, 0x00, 0x5e, 0xfe) || startsWith(bytes.slice(8), 0x02, 0x00, 0x5e, 0xfe)
    ? low
    : undefined
}

const kindOf6 = (bytes: Bytes): Kind => {
  const [a = 0, b = 0, c = 0, d = 0] = bytes
  if (startsWith(bytes, 0xfd, 0x00, 0x0e, 0xc2) && zeros(bytes, 4, 14) && bytes[14] === 2 && bytes[15] === 0x54) return "metadata"
  if (startsWith(bytes, 0xfd, 0x20, 0x00, 0xce) && zeros(bytes, 4, 14) && bytes[14] === 2 && bytes[15] === 0x54) return "metadata"
  const inner = embedded(bytes)
  if (inner !== undefined) return kindOf4(inner)
  // Only 2000::/3 is out there; some of it is reserved.
  const isGlobal = a >= 0x20 && a <= 0x3f
  const isReserved = a === 0x20 && b === 0x01 && (c < 0x02 || c === 0x0d && d === 0xb8) || a === 0x3f && b === 0xff && c < 0x10
  return isGlobal && !isReserved ? "public" : "private"
}

/** The kind of an address; undefined when the text is none. */
export const kindOf = (text: string): Kind | undefined => {
  const bare = text.startsWith("[") && text.endsWith("]") ? text.slice(1, -1) : text
  const four = bare.includes(":") ? undefined : ipv4(bare)
  if (four !== undefined) return kindOf4(four)
  const six = ipv6(bare)
  return six === undefined ? undefined : kindOf6(six)
}
