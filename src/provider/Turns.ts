/**
 * The messages of a prompt as protocols want them that know two roles: user and assistant in turn, every call answered in
 * the next message, every answer asked for in the one before.
 *
 * **Details**
 *
 * Each message is converted once in its life: what was made of it is kept beside its content, so that a copy of a message
 * with other options (a cache breakpoint) finds it too. Neighbours of one role become one message, of converted blocks
 * that are shared and never changed. Calls without a result and results without a call are left out, and so is a second
 * result of one call; results stand first in their message. Which thinking is there is the matter of `domain/History`.
 *
 * Source: `hermes-llm.md` §4.2, §4.4 and §14.5.
 *
 * @since 0.1.0
 */
import type * as Prompt from "effect/ai/Prompt"

/** Any message but a system message. */
export type Turn = Exclude<Prompt.Message, Prompt.SystemMessage>

/** A converted message. Nothing in it is ever changed. */
export interface Converted<Block> {
  readonly role: "user" | "assistant"
  /** What is always sent. */
  readonly plain: ReadonlyArray<Block>
  /** What is sent where thinking goes back: `plain` and its thinking. */
  readonly replay: ReadonlyArray<Block>
  /** Ids of the calls and of the results in it, as they stand on the wire. */
  readonly calls: ReadonlyArray<string>
  readonly results: ReadonlyArray<string>
}

/** A message on the wire. */
export interface Message<Block> {
  readonly role: "user" | "assistant"
  readonly content: ReadonlyArray<Block>
}

/** What a protocol says about its blocks. */
export interface Dialect<Block> {
  readonly convert: (message: Turn) => Converted<Block>
  /** Id of a block that is a call. */
  readonly callId: (block: Block) => string | undefined
  /** Id of the call that a block answers. */
  readonly resultId: (block: Block) => string | undefined
  readonly isThinking: (block: Block) => boolean
  readonly text: (text: string) => Block
  /** The blocks of a message with what its options ask for. */
  readonly mark: (blocks: ReadonlyArray<Block>, message: Turn) => ReadonlyArray<Block>
}

/** What stands for a message of which nothing is left. */
export const removed = { calls: "(tool call removed)", results: "(tool result removed)" }

/** A converter that remembers; see the module. */
export const remembering = <Block>(convert: (message: Turn) => Converted<Block>): (message: Turn) => Converted<Block> => {
  const known = new WeakMap<object, Converted<Block>>()
  return (message) => {
    const before = known.get(message.content)
    if (before !== undefined) return before
    const converted = convert(message)
    known.set(message.content, converted)
    return converted
  }
}

interface Member<Block> {
  readonly message: Turn
  readonly converted: Converted<Block>
}

interface Run<Block> {
  readonly role: Message<Block>["role"]
  readonly members: Array<Member<Block>>
}

const runsOf = <Block>(
  messages: ReadonlyArray<Prompt.Message>,
  dialect: Dialect<Block>
): ReadonlyArray<Run<Block>> => {
  const runs: Array<Run<Block>> = []
  for (const message of messages) {
    if (message.role === "system") continue
    const member = { message, converted: dialect.convert(message) }
    const last = runs.at(-1)
    if (last?.role === member.converted.role) last.members.push(member)
    else runs.push({ role: member.converted.role, members: [member] })
  }
  return runs
}

const idsOf = <Block>(run: Run<Block> | undefined, kind: "calls" | "results"): Set<string> =>
  new Set(run?.members.flatMap(({ converted }) => converted[kind]) ?? [])

const assistantContent = <Block>(
  run: Run<Block>,
  next: Run<Block> | undefined,
  form: "plain" | "replay",
  dialect: Dialect<Block>
): ReadonlyArray<Block> => {
  const answered = idsOf(next, "results")
  const isOpen = (block: Block): boolean => {
    const id = dialect.callId(block)
    return id !== undefined && !answered.has(id)
  }
  const blocks = run.members.flatMap(({ converted, message }) => {
    const whole = converted.calls.every((id) => answered.has(id))
    return dialect.mark(whole ? converted[form] : converted[form].filter((block) => !isOpen(block)), message)
  })
  return blocks.length === 0 ? [dialect.text(removed.calls)] : blocks
}

const userContent = <Block>(
  run: Run<Block>,
  previous: Run<Block> | undefined,
  dialect: Dialect<Block>
): ReadonlyArray<Block> => {
  const open = idsOf(previous, "calls")
  const results: Array<Block> = []
  const others: Array<Block> = []
  for (const { converted, message } of run.members) {
    const kept = converted.plain.filter((block) => {
      const id = dialect.resultId(block)
      return id === undefined || open.delete(id)
    })
    for (const block of dialect.mark(kept, message)) {
      if (dialect.resultId(block) === undefined) others.push(block)
      else results.push(block)
    }
  }
  const blocks = [...results, ...others]
  return blocks.length === 0 ? [dialect.text(removed.results)] : blocks
}

/** See the module. `replays` says whether thinking goes back to the API that is asked. */
export const alternate = <Block>(
  messages: ReadonlyArray<Prompt.Message>,
  dialect: Dialect<Block>,
  replays: boolean
): ReadonlyArray<Message<Block>> => {
  const runs = runsOf(messages, dialect)
  return runs.map((run, index) => ({
    role: run.role,
    content: run.role === "assistant"
      ? assistantContent(run, runs[index + 1], replays ? "replay" : "plain", dialect)
      : userContent(run, runs[index - 1], dialect)
  }))
}

/** Whether the newest assistant message called tools without having thought first. */
export const calledWithoutThinking = <Block>(
  messages: ReadonlyArray<Message<Block>>,
  dialect: Dialect<Block>
): boolean => {
  const content = messages.findLast((message) => message.role === "assistant")?.content ?? []
  const [first] = content
  return first !== undefined && !dialect.isThinking(first) &&
    content.some((block) => dialect.callId(block) !== undefined)
}
