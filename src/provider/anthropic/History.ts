/**
 * The messages of a prompt as the API wants them: user and assistant in turn, every call answered in the next message,
 * every answer asked for in the one before.
 *
 * **Details**
 *
 * Neighbours of one role become one message, of converted blocks that are shared and never changed. Calls without a
 * result and results without a call are left out, and so is a second result of one call; results stand first in their
 * message. Thinking stays in the newest assistant message only, and only where the API that signed it gets it back.
 * Cache breakpoints come last, on the last block that can carry one.
 *
 * Source: `hermes-llm.md` §4.2 and §14.5.
 *
 * @since 0.1.0
 */
import type * as Prompt from "effect/ai/Prompt"
import type { Converted, Turn } from "./Convert.ts"
import * as Wire from "./Wire.ts"

/** What stands for a message of which nothing is left. */
export const removed = { calls: "(tool call removed)", results: "(tool result removed)" }

interface Member {
  readonly converted: Converted
  readonly marker: Wire.CacheControl | undefined
}

interface Run {
  readonly role: Wire.Message["role"]
  readonly members: Array<Member>
}

const runsOf = (messages: ReadonlyArray<Prompt.Message>, convert: (message: Turn) => Converted): ReadonlyArray<Run> => {
  const runs: Array<Run> = []
  for (const message of messages) {
    if (message.role === "system") continue
    const converted = convert(message)
    const member = { converted, marker: Wire.cacheControl(message.options) }
    const last = runs.at(-1)
    if (last?.role === converted.role) last.members.push(member)
    else runs.push({ role: converted.role, members: [member] })
  }
  return runs
}

const canCarry = (block: Wire.Block): block is Exclude<Wire.Block, Wire.ThinkingBlock | Wire.RedactedBlock> =>
  block.type !== "thinking" && block.type !== "redacted_thinking"

const marked = (blocks: ReadonlyArray<Wire.Block>, marker: Wire.CacheControl | undefined): ReadonlyArray<Wire.Block> => {
  if (marker === undefined) return blocks
  const at = blocks.findLastIndex(canCarry)
  const block = blocks[at]
  return block !== undefined && canCarry(block) ? blocks.with(at, { ...block, cache_control: marker }) : blocks
}

const ids = (run: Run | undefined, kind: "calls" | "results"): ReadonlySet<string> =>
  new Set(run?.members.flatMap((member) => member.converted[kind]) ?? [])

const orText = (blocks: ReadonlyArray<Wire.Block>, text: string): ReadonlyArray<Wire.Block> =>
  blocks.length === 0 ? [{ type: "text", text }] : blocks

const assistantContent = (run: Run, next: Run | undefined, thinking: boolean): ReadonlyArray<Wire.Block> => {
  const answered = ids(next, "results")
  const blocks = run.members.flatMap(({ converted, marker }) => {
    const all = thinking ? converted.replay : converted.plain
    const kept = converted.calls.every((id) => answered.has(id))
      ? all
      : all.filter((block) => block.type !== "tool_use" || answered.has(block.id))
    return marked(kept, marker)
  })
  return orText(blocks, removed.calls)
}

const userContent = (run: Run, previous: Run | undefined): ReadonlyArray<Wire.Block> => {
  const open = new Set(ids(previous, "calls"))
  const results: Array<Wire.Block> = []
  const others: Array<Wire.Block> = []
  for (const { converted, marker } of run.members) {
    const kept = converted.plain.filter((block) => block.type !== "tool_result" || open.delete(block.tool_use_id))
    for (const block of marked(kept, marker)) (block.type === "tool_result" ? results : others).push(block)
  }
  return orText([...results, ...others], removed.results)
}

/** See the module. `replaysThinking` says whether the API that is asked is the one that signed the thinking. */
export const messages = (
  prompt: ReadonlyArray<Prompt.Message>,
  convert: (message: Turn) => Converted,
  replaysThinking: boolean
): ReadonlyArray<Wire.Message> => {
  const runs = runsOf(prompt, convert)
  const newest = replaysThinking ? runs.findLast((run) => run.role === "assistant") : undefined
  return runs.map((run, index) => ({
    role: run.role,
    content: run.role === "assistant"
      ? assistantContent(run, runs[index + 1], run === newest)
      : userContent(run, runs[index - 1])
  }))
}
