/**
 * Redacts a text once, however many events carry it: a conversation is sent again with every request.
 */
import * as Redaction from "../../domain/Redaction.ts"
import { current, type Registry } from "../../domain/Secrets.ts"

/** A shorter text holds no secret that is one. */
const shortest = 8
/** Looking up a shorter text costs as much as looking through it. */
const worthKeeping = 64
/** A longer text would push out everything else. */
const longestKept = 65_536
/** Characters of one generation. Two are kept: what is asked for again moves to the younger. */
const generation = 500_000

interface Memory {
  readonly version: number
  young: Map<string, string>
  old: Map<string, string>
  room: number
}

/** One memory for each registry of secrets, and a new one whenever a secret is added. */
const memories = new WeakMap<Registry, Memory>()

const memoryOf = (secrets: Registry): Memory => {
  const known = memories.get(secrets)
  if (known !== undefined && known.version === secrets.version()) return known
  const memory: Memory = { version: secrets.version(), young: new Map(), old: new Map(), room: generation }
  memories.set(secrets, memory)
  return memory
}

/** `Redaction.redactText`, remembered for a while. */
export const redacted = (text: string): string => {
  if (text.length < shortest) return text
  const secrets = current()
  if (text.length < worthKeeping || text.length > longestKept) return Redaction.redactText(text, secrets)
  const memory = memoryOf(secrets)
  const known = memory.young.get(text)
  if (known !== undefined) return known
  const out = memory.old.get(text) ?? Redaction.redactText(text, secrets)
  if (memory.room < text.length) {
    memory.old = memory.young
    memory.young = new Map()
    memory.room = generation
  }
  memory.room -= text.length
  memory.young.set(text, out)
  return out
}
