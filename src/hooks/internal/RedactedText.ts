/**
 * Redacts a text once, however many events carry it: a conversation is sent again with every request.
 */
import * as Redaction from "../../domain/Redaction.ts"

/** A shorter text holds no secret that is one. */
const shortest = 8
/** Looking up a shorter text costs as much as looking through it. */
const worthKeeping = 64
/** A longer text would push out everything else. */
const longestKept = 65_536
/** Characters of one generation. Two are kept: what is asked for again moves to the younger. */
const generation = 500_000

let young = new Map<string, string>()
let old = new Map<string, string>()
let room = generation

/** `Redaction.redactText`, remembered for a while. */
export const redacted = (text: string): string => {
  if (text.length < shortest) return text
  if (text.length < worthKeeping || text.length > longestKept) return Redaction.redactText(text)
  const known = young.get(text)
  if (known !== undefined) return known
  const out = old.get(text) ?? Redaction.redactText(text)
  if (room < text.length) {
    old = young
    young = new Map()
    room = generation
  }
  room -= text.length
  young.set(text, out)
  return out
}
