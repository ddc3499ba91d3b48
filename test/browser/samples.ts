/**
 * Traces to look at: a run with a child, parallel tools, a retry, a denial and a failure; another one of it; hostile
 * texts.
 */
import * as Result from "effect/Result"
import * as Atof from "../../src/observe/Atof.ts"
import type * as TraceView from "../../src/observe/TraceView.ts"

type Fields = Record<string, unknown>

const writer = () => {
  const events: Array<Atof.Event> = []
  const started = 1_750_000_000_000_000
  const event = (fields: Fields): void => {
    events.push(Result.getOrThrow(Atof.decode({ atof_version: "0.1", ...fields })))
  }
  return {
    events,
    scope: (
      half: "start" | "end",
      category: string,
      uuid: string,
      parent: string | null,
      millis: number,
      name: string,
      data: unknown,
      more: Fields = {}
    ) =>
      event({
        kind: "scope",
        scope_category: half,
        category,
        uuid,
        parent_uuid: parent,
        timestamp: started + millis * 1000,
        name,
        attributes: [],
        data,
        ...more
      }),
    mark: (uuid: string, parent: string, millis: number, name: string, metadata: Fields) =>
      event({ kind: "mark", uuid, parent_uuid: parent, timestamp: started + millis * 1000, name, data: null, metadata })
  }
}

const answer = (text: string, prompt: number, completion: number, cached = 0) => ({
  choices: [{ message: { role: "assistant", content: text }, finish_reason: "stop" }],
  usage: { prompt_tokens: prompt, completion_tokens: completion, prompt_tokens_details: { cached_tokens: cached } }
})

const long = Array.from(
  { length: 120 },
  (_, index) => `line ${index + 1}: the quick brown fox jumps over the lazy dog`
).join("\n")

const sample = (name: string, said: string, last: string): TraceView.NamedTrace => {
  const { events, mark, scope } = writer()
  const system = { role: "system", content: "You are Hermes, an agent that works with tools." }
  const user = { role: "user", content: said }
  scope("start", "agent", "A", null, 0, "demo", null, { metadata: { session_id: "demo" } })
  mark("m1", "A", 1, "hermes.turn.start", { user_message: said })
  scope("start", "llm", "L1", "A", 5, "claude-sonnet", {
    model: "claude-sonnet",
    messages: [system, user],
    temperature: 0
  })
  scope(
    "end",
    "llm",
    "L1",
    "A",
    380,
    "claude-sonnet",
    { error: "overloaded" },
    { metadata: { status: "error", error: "529 overloaded: try again" } }
  )
  scope("start", "llm", "L2", "A", 900, "claude-sonnet", {
    model: "claude-sonnet",
    messages: [system, user],
    temperature: 0
  })
  scope(
    "end",
    "llm",
    "L2",
    "A",
    2400,
    "claude-sonnet",
    answer("I look at the files, and have somebody look at the logs.", 1800, 220, 1200)
  )
  scope("start", "tool", "T1", "A", 2410, "read_file", { path: "src/main.ts" })
  scope("start", "tool", "T2", "A", 2412, "delegate_task", {
    goal: "look at the logs of last night",
    context: "the service stopped at 03:12",
    toolsets: ["terminal"]
  })
  scope("end", "tool", "T1", "A", 2450, "read_file", long)
  scope("start", "agent", "C", "T2", 2500, "child", null, {
    metadata: { session_id: "demo-child", child_goal: "look at the logs of last night" }
  })
  scope("start", "llm", "L3", "C", 2510, "gpt-5-mini", {
    messages: [{ role: "user", content: "look at the logs of last night" }]
  })
  scope("end", "llm", "L3", "C", 3600, "gpt-5-mini", answer("", 600, 60))
  mark("m2", "C", 3610, "hermes.approval.request", { command: "rm -rf /var/log/old", choice: "" })
  mark("m3", "C", 5200, "hermes.approval.response", { command: "rm -rf /var/log/old", choice: "deny" })
  scope("start", "tool", "T3", "C", 5300, "terminal", { command: "journalctl -u service --since yesterday | tail -50" })
  scope("end", "tool", "T3", "C", 6100, "terminal", { output: "03:12 disk is full", exit_code: 0, error: null })
  scope("end", "agent", "C", "T2", 6300, "child", null)
  scope("end", "tool", "T2", "A", 6350, "delegate_task", {
    results: [{ status: "completed", summary: "the disk is full" }]
  })
  scope("start", "llm", "L4", "A", 6360, "claude-sonnet", {
    messages: [
      system,
      user,
      { role: "assistant", content: "I look at the files." },
      { role: "tool", content: "the disk is full" }
    ]
  })
  scope("end", "llm", "L4", "A", 8100, "claude-sonnet", answer(last, 5200, 410, 4800))
  scope("end", "agent", "A", null, 8120, "demo", null)
  return { name, trace: { _tag: "Events", events, faults: [] } }
}

/** A run. */
export const run = (): TraceView.NamedTrace =>
  sample("run", "Why did the service stop last night?", "The disk was full.\nRemove the old logs, and it starts again.")

/** The same task another day. */
export const other = (): TraceView.NamedTrace =>
  sample("other", "Why did the service stop last night?", "The disk was full.\nI removed nothing: you denied it.")

/** Texts that want to be more than text. */
export const hostile = (): TraceView.NamedTrace => {
  const { events, scope } = writer()
  const bad = '</script><script>globalThis.hacked = 1</script><img src=x onerror="globalThis.hacked = 2">'
  scope("start", "agent", "A", null, 0, bad, null)
  scope("start", "llm", "L", "A", 1, bad, { messages: [{ role: bad, content: bad }] })
  scope("end", "llm", "L", "A", 2, bad, answer(bad, 1, 1))
  scope("start", "tool", "T", "A", 3, bad, { [bad]: bad })
  scope("end", "tool", "T", "A", 4, bad, JSON.stringify({ [bad]: [bad] }))
  scope("end", "agent", "A", null, 5, bad, null)
  return { name: bad, trace: { _tag: "Events", events, faults: [] } }
}

/** A long run. */
export const many = (count: number): TraceView.NamedTrace => {
  const { events, scope } = writer()
  const messages: Array<object> = []
  let at = 0
  scope("start", "agent", "A", null, at, "long", null)
  for (let n = 0; events.length < count - 1; n++) {
    messages.push({ role: "user", content: `message ${n}` })
    scope("start", "llm", `L${n}`, "A", (at += 2), "model", { messages: messages.slice(-20) })
    scope("end", "llm", `L${n}`, "A", (at += 40), "model", answer(`answer ${n}`, 100 + n, 20))
    scope("start", "tool", `T${n}`, "A", (at += 1), "read_file", { path: `file-${n}.ts` })
    scope("end", "tool", `T${n}`, "A", (at += 9), "read_file", "ok")
  }
  scope("end", "agent", "A", null, at, "long", null)
  return { name: "long", trace: { _tag: "Events", events, faults: [] } }
}
