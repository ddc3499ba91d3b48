// ATIF: conversion of streams, the rules of a document, and what a run leaves on disk.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Agent from "../../src/agent/Agent.ts"
import * as Atif from "../../src/observe/Atif.ts"
import * as AtifCheck from "../../src/observe/AtifCheck.ts"
import * as AtifConvert from "../../src/observe/AtifConvert.ts"
import * as AtifWriter from "../../src/observe/AtifWriter.ts"
import * as Atof from "../../src/observe/Atof.ts"
import * as AtifSchema from "./support/atifSchema.ts"
import * as RecordEntries from "./support/recordEntries.ts"
import * as TracePlugin from "../../src/observe/TracePlugin.ts"
import * as Scripted from "../../src/models/provider/Scripted.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as Delegate from "../../src/tools/builtin/Delegate.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"
import * as Recorded from "./support/recorded.ts"
import * as Runs from "./support/runs.ts"
import { prop } from "../support/property.ts"

const sound = (trajectory: Atif.Trajectory | undefined): Atif.Trajectory => {
  assert.isDefined(trajectory)
  assert.deepStrictEqual(
    AtifCheck.check(JSON.parse(JSON.stringify(trajectory))).filter(({ severity }) => severity === "error"),
    []
  )
  return trajectory as Atif.Trajectory
}

const only = (events: ReadonlyArray<Atof.Event>): Atif.Trajectory => {
  const { faults, trajectories } = AtifConvert.convert(events)
  assert.deepStrictEqual(faults, [])
  assert.strictEqual(trajectories.length, 1)
  return sound(trajectories[0])
}

const ran = (turns: ReadonlyArray<Scripted.Turn>, prompts: ReadonlyArray<string> = ["go"]) =>
  Effect.gen(function* () {
    const { events, plugin } = Runs.collector()
    yield* Effect.provide(
      Effect.forEach(prompts, (prompt) => Effect.exit(Agent.run({ prompt, sessionId: "s1" }))),
      Runs.runtime(turns, [], [], [plugin]).layer
    )
    return only(events)
  })

/** A stream told by hand; each line is an instant later than the one before. */
const stream = () => {
  const events: Array<Atof.Event> = []
  let at = 1_700_000_000_000_000
  const scope = (half: "start" | "end", category: string, uuid: string, parent: string | null, fields: object = {}) => {
    events.push(
      Result.getOrThrow(
        Atof.decode({
          kind: "scope",
          atof_version: "0.1",
          scope_category: half,
          category,
          uuid,
          parent_uuid: parent,
          timestamp: at++,
          name: category,
          attributes: [],
          ...fields
        })
      )
    )
  }
  const mark = (name: string, parent: string | null, fields: object = {}) => {
    events.push(
      Result.getOrThrow(
        Atof.decode({
          kind: "mark",
          atof_version: "0.1",
          uuid: `m${at}`,
          parent_uuid: parent,
          timestamp: at++,
          name,
          ...fields
        })
      )
    )
  }
  const llm = (uuid: string, parent: string, messages: ReadonlyArray<object>, data: unknown, fields: object = {}) => {
    scope("start", "llm", uuid, parent, { data: { messages }, category_profile: { model_name: "m" } })
    scope("end", "llm", uuid, parent, { data, category_profile: { model_name: "m" }, ...fields })
  }
  const tool = (
    uuid: string,
    parent: string,
    id: string | undefined,
    name: string,
    output: unknown,
    inside: () => void = () => undefined
  ) => {
    const fields = { name, category_profile: id === undefined ? {} : { tool_call_id: id } }
    scope("start", "tool", uuid, parent, { ...fields, data: { a: 1 } })
    inside()
    scope("end", "tool", uuid, parent, { ...fields, data: output })
  }
  scope("start", "agent", "A", null, { name: "root", metadata: { session_id: "S", version: "1" } })
  return { events, scope, mark, llm, tool }
}

const user = (content: unknown) => ({ role: "user", content })
const call = (id: string | undefined, name: string, args: unknown = "{}") => ({
  ...(id === undefined ? {} : { id }),
  name,
  arguments: args
})

describe("a trajectory of a run", () => {
  it.effect("22, 23, 26, 37, 38 system once, user, answer with its calls and results, sums", () =>
    Effect.gen(function* () {
      const { final_metrics: sums, steps, ...rest } = yield* ran(Runs.parallel)
      assert.deepInclude(rest, { schema_version: "ATIF-v1.7", session_id: "s1", trajectory_id: "s1" })
      assert.deepInclude(rest.agent, { name: "Hermes Test", version: "1.2.3", model_name: "scripted" })
      assert.isAbove(rest.agent.tool_definitions?.length ?? 0, 2)
      assert.deepStrictEqual(
        steps.map(({ source }) => source),
        ["system", "user", "agent", "agent"]
      )
      assert.deepStrictEqual(
        steps.slice(1).map(({ message }) => message),
        ["go", "both", "parallel tools complete."]
      )
      const step = steps[2]
      assert.deepStrictEqual(
        step?.tool_calls?.map((one) => [one.tool_call_id, one.arguments]),
        [
          ["call_alpha", { text: "alpha" }],
          ["call_beta", { text: "beta" }]
        ]
      )
      assert.deepStrictEqual(
        step?.observation?.results.map((one) => [one.source_call_id, one.content]),
        [
          ["call_beta", "beta"],
          ["call_alpha", "alpha"]
        ]
      )
      assert.strictEqual(step?.reasoning_content, "two are better")
      assert.deepInclude(step?.metrics, { prompt_tokens: 720, completion_tokens: 80, cached_tokens: 200 })
      assert.strictEqual(sums?.total_steps, 4)
      assert.isAbove(sums?.total_prompt_tokens ?? 0, 720)
    })
  )

  it.effect("25 the same words in two turns are two steps", () =>
    Effect.gen(function* () {
      const { steps } = yield* ran([Scripted.complete("a"), Scripted.complete("b")], ["hi", "hi"])
      assert.deepStrictEqual(
        steps.slice(1).map(({ message, source }) => [source, message]),
        [
          ["user", "hi"],
          ["agent", "a"],
          ["user", "hi"],
          ["agent", "b"]
        ]
      )
    })
  )

  it.effect("41 a call that failed for good leaves the user's step and the error, and no step of the agent", () =>
    Effect.gen(function* () {
      const { steps } = yield* ran([Scripted.fail(new AiError.AuthenticationError({ kind: "InvalidKey" }))])
      assert.deepStrictEqual(
        steps.slice(1).map(({ source }) => source),
        ["user", "system"]
      )
      assert.match(String(steps[2]?.message), /could not be asked/u)
    })
  )

  it.effect("46 an interrupted run is sound: the call has a result that says so", () =>
    Effect.gen(function* () {
      const { events, plugin } = Runs.collector()
      yield* Effect.scoped(
        Effect.gen(function* () {
          const { hanging, layer } = Runs.runtime(
            [Scripted.complete({ toolCalls: [{ id: "c1", name: "hang", params: {} }] })],
            [],
            [],
            [plugin]
          )
          const fiber = yield* Effect.forkChild(Effect.provide(Agent.run({ prompt: "go" }), layer))
          yield* Deferred.await(hanging)
          // What a killed process leaves: the stream up to here.
          const { steps } = only(events)
          assert.deepStrictEqual(
            steps.map(({ source }) => source),
            ["system", "user", "agent"]
          )
          assert.isUndefined(steps[2]?.observation)
          yield* Fiber.interrupt(fiber)
        })
      )
      const { extra, steps } = only(events)
      assert.deepInclude(steps[2]?.observation?.results[0]?.extra, { status: "cancelled" })
      assert.strictEqual(extra?.["interrupted"], true)
    })
  )
})

describe("a stream", () => {
  it("29, 31, 32 a late result goes to its call; a tool that nobody called is a step without a model; none is lost", () => {
    const s = stream()
    s.llm("L1", "A", [user("u")], { content: "", tool_calls: [call("c1", "slow")] })
    s.scope("start", "tool", "T1", "A", { name: "slow", category_profile: { tool_call_id: "c1" }, data: {} })
    s.llm("L2", "A", [user("u")], { content: "meanwhile" })
    s.scope("end", "tool", "T1", "A", { name: "slow", category_profile: { tool_call_id: "c1" }, data: "late" })
    s.tool("T2", "A", undefined, "rule", { deep: [1] })
    s.tool("T3", "A", "nobody", "rule", null)
    const { steps } = only(s.events)
    assert.deepInclude(steps[1]?.observation?.results[0], { source_call_id: "c1", content: "late" })
    assert.strictEqual(steps[1]?.message, "")
    assert.deepInclude(steps[3], { source: "agent", message: "", llm_call_count: 0 })
    assert.strictEqual(steps[3]?.observation?.results[0]?.content, '{"deep":[1]}')
    assert.deepInclude(steps[4]?.observation?.results[0], { source_call_id: "nobody", content: "" })
  })

  it("28, 34, 35 equal calls keep their results apart; any arguments are an object; ids are made where there are none", () => {
    const s = stream()
    s.llm("L1", "A", [user("u")], {
      content: "x",
      tool_calls: [
        call("a", "t"),
        call("b", "t", "not json"),
        call("c", "t", "[1]"),
        call("d", "t", ""),
        { id: "e", name: "t" }
      ]
    })
    s.tool("T1", "A", "b", "t", "of b")
    s.tool("T2", "A", "a", "t", "of a")
    s.llm("L2", "A", [user("u")], { content: "", tool_calls: [call(undefined, "t"), call(undefined, "t")] })
    s.tool("T3", "A", undefined, "t", "first")
    s.tool("T4", "A", undefined, "t", "second")
    const { steps } = only(s.events)
    assert.deepStrictEqual(
      steps[1]?.tool_calls?.map((one) => one.arguments),
      [{}, { raw: "not json" }, { value: [1] }, {}, {}]
    )
    assert.deepStrictEqual(
      steps[1]?.observation?.results.map((one) => [one.source_call_id, one.content]),
      [
        ["b", "of b"],
        ["a", "of a"]
      ]
    )
    assert.deepStrictEqual(
      steps[2]?.observation?.results.map((one) => [one.source_call_id, one.content]),
      [
        ["t:0", "first"],
        ["t:1", "second"]
      ]
    )
  })

  it("40 a retry is told in the step that came of it, with the model that answered", () => {
    const s = stream()
    s.llm(
      "L1",
      "A",
      [user("u")],
      { error: { type: "RateLimit", message: "slow down" } },
      { metadata: { status: "error" } }
    )
    s.llm("L2", "A", [user("u")], { content: "ok" }, { category_profile: { model_name: "fallback" } })
    const { steps } = only(s.events)
    assert.deepStrictEqual(
      steps.map(({ source }) => source),
      ["user", "agent"]
    )
    assert.strictEqual(steps[1]?.model_name, "fallback")
    assert.deepInclude((steps[1]?.extra?.["retries"] as ReadonlyArray<object> | undefined)?.[0], {
      model: "m",
      error: { type: "RateLimit", message: "slow down" }
    })
  })

  it("43 a shorter conversation is a compaction that holds what is left; a question beside it is none", () => {
    const s = stream()
    s.llm("L1", "A", [user("one")], { content: "1" })
    s.llm("L2", "A", [user("one"), user("two")], { content: "2" })
    s.llm("L3", "A", [user("one"), user("two"), user("three")], { content: "3" })
    s.llm("L4", "A", [user("name this conversation")], { content: "title" })
    s.llm("L5", "A", [user("summary of it all"), user("three")], { content: "4" })
    const { steps } = only(s.events)
    assert.deepStrictEqual(
      steps.map(({ message, source }) => [source, message]),
      [
        ["user", "one"],
        ["agent", "1"],
        ["user", "two"],
        ["agent", "2"],
        ["user", "three"],
        ["agent", "3"],
        ["user", "name this conversation"],
        ["agent", "title"],
        ["system", ""],
        ["agent", "4"]
      ]
    )
    assert.deepStrictEqual(steps[8]?.extra, { context_management: { type: "compaction", boundary: "replace" } })
    assert.deepStrictEqual(steps[8]?.observation?.results, [{ content: "summary of it all" }])
  })

  it("44 what a resumed session repeats is marked as copied", () => {
    const s = stream()
    s.llm("L1", "A", [user("old"), { role: "assistant", content: "answer" }, user("new")], { content: "x" })
    const { steps } = only(s.events)
    assert.deepStrictEqual(
      steps.map(({ is_copied_context: copied, message }) => [message, copied]),
      [
        ["old", true],
        ["new", undefined],
        ["x", undefined]
      ]
    )
  })

  it("49 an unknown category is kept as a step of the system; 50 a payload against its data_schema is a typed error", () => {
    const s = stream()
    s.llm("L1", "A", [user("u")], { content: "x" })
    s.scope("start", "quantum", "Q", "A")
    s.scope("end", "quantum", "Q", "A", { data: { spin: 1 } })
    s.mark("note", "A", { data: { n: 2 } })
    const { steps } = only(s.events)
    assert.deepStrictEqual(
      steps.slice(2).map(({ extra, source }) => [source, extra?.["data"]]),
      [
        ["system", { spin: 1 }],
        ["system", { n: 2 }]
      ]
    )
    s.scope("start", "llm", "L9", "A", {
      data_schema: { name: "openai/chat-completions", version: "1" },
      data: { nothing: true }
    })
    const { faults } = AtifConvert.convert(s.events)
    assert.deepStrictEqual(
      faults.map(({ uuid }) => uuid),
      ["L9"]
    )
  })

  it("a result that the session has in another form than the library that executed its call is that of the session", () => {
    const s = stream()
    s.llm("L1", "A", [user("u")], { content: "", tool_calls: [call("c1", "echo")] })
    s.scope("start", "tool", "T1", "A", { name: "echo", category_profile: { tool_call_id: "c1" }, data: {} })
    s.scope("end", "tool", "T1", "A", { name: "echo", category_profile: { tool_call_id: "c1" }, data: "all of it" })
    s.mark("hermes.result.stored", "A", { data: null, metadata: { tool_call_id: "c1", content: "a part of it" } })
    assert.deepStrictEqual(
      only(s.events)
        .steps.at(-1)
        ?.observation?.results.map(({ content }) => content),
      ["a part of it"]
    )
  })

  it("47 an empty session makes no document", () => {
    assert.deepStrictEqual(AtifConvert.convert(stream().events).trajectories, [])
  })

  it("52, 53, 55, 56, 59 children are embedded where they were delegated, whole documents, nested; empty ones are left out", () => {
    const s = stream()
    const child = (uuid: string, parent: string, id: string, fields: object, body: () => void) => {
      s.scope("start", "agent", uuid, parent, { name: id, metadata: { session_id: id, version: "1" }, ...fields })
      body()
    }
    s.llm("L1", "A", [user("u")], {
      content: "",
      tool_calls: ["d1", "d2", "d3"].map((id) => call(id, "delegate_task"))
    })
    for (const id of ["d1", "d2", "d3"])
      s.scope("start", "tool", id, "A", { name: "delegate_task", category_profile: { tool_call_id: id }, data: {} })
    child("C2", "d2", "k2", {}, () => undefined)
    child("C1", "d1", "k1", {}, () => undefined)
    child("C3", "d3", "k3", {}, () => undefined)
    s.llm("L2", "C1", [user("goal 1")], {
      content: "",
      tool_calls: [call("g", "delegate_task")],
      usage: { prompt_tokens: 3, cost: 0.5 }
    })
    s.llm("L3", "C2", [user("goal 2")], { content: "two" })
    s.scope("start", "tool", "g", "C1", { name: "delegate_task", category_profile: { tool_call_id: "g" }, data: {} })
    child("G", "g", "k1", { data: { input: "the grandchild's goal" } }, () => undefined)
    for (const [id, parent] of [
      ["g", "C1"],
      ["d2", "A"],
      ["d1", "A"],
      ["d3", "A"]
    ] as const) {
      s.scope("end", "tool", id, parent, {
        name: "delegate_task",
        category_profile: { tool_call_id: id },
        data: `{"of":"${id}"}`
      })
    }
    const root = only(s.events)
    const results = root.steps[1]?.observation?.results
    assert.deepStrictEqual(
      results?.map((one) => [one.source_call_id, one.subagent_trajectory_ref]),
      [
        ["d2", [{ trajectory_id: "k2", session_id: "k2" }]],
        ["d1", [{ trajectory_id: "k1", session_id: "k1" }]],
        ["d3", undefined]
      ]
    )
    const [k2, k1, ...more] = root.subagent_trajectories ?? []
    assert.deepStrictEqual([k2?.trajectory_id, k1?.trajectory_id, more], ["k2", "k1", []])
    const [grandchild] = k1?.subagent_trajectories ?? []
    assert.deepInclude(grandchild, { trajectory_id: "k1#2", session_id: "k1" })
    assert.deepStrictEqual(
      grandchild?.steps.map(({ message }) => message),
      ["the grandchild's goal"]
    )
    for (const one of [k1, k2, grandchild]) sound(one)
    assert.strictEqual(root.final_metrics?.total_cost_usd, 0.5)
    assert.isUndefined(root.final_metrics?.total_prompt_tokens)
  })

  it("a child that was announced and never began is told by its goal; one that began, once", () => {
    for (const begins of [false, true]) {
      const s = stream()
      s.llm("L1", "A", [user("u")], { content: "", tool_calls: [call("d", "delegate_task")] })
      s.tool("D", "A", "d", "delegate_task", "late", () => {
        s.mark("hermes.subagent.start", "D", {
          metadata: { child_session_id: "k", session_id: "k", child_goal: "look" }
        })
        if (begins) s.scope("start", "agent", "C", "D", { metadata: { session_id: "k", version: "1" } })
      })
      if (begins) s.llm("L2", "C", [user("look here")], { content: "found" })
      const root = only(s.events)
      assert.deepStrictEqual(
        root.steps[1]?.observation?.results.map(({ subagent_trajectory_ref: refs }) => refs),
        [[{ trajectory_id: "k", session_id: "k" }]]
      )
      assert.deepStrictEqual(
        root.subagent_trajectories?.map(({ session_id: id, steps }) => [id, steps.map(({ message }) => message)]),
        [["k", begins ? ["look here", "found"] : ["look"]]]
      )
    }
  })

  it("61 the background child of an earlier turn stays with the call that started it", () => {
    const s = stream()
    s.llm("L1", "A", [user("u")], { content: "", tool_calls: [call("d", "delegate_task")] })
    s.tool("D", "A", "d", "delegate_task", "started", () =>
      s.scope("start", "agent", "C", "D", { metadata: { session_id: "k", version: "1" } })
    )
    s.llm("L2", "A", [user("u"), user("v")], { content: "second" })
    s.llm("L3", "C", [user("goal")], { content: "of the child" })
    s.llm("L4", "A", [user("u"), user("v"), user("w")], { content: "third" })
    const root = only(s.events)
    assert.deepStrictEqual(
      root.steps.map(({ message }) => message),
      ["u", "", "v", "second", "w", "third"]
    )
    assert.deepStrictEqual(root.steps[1]?.observation?.results[0]?.subagent_trajectory_ref, [
      { trajectory_id: "k", session_id: "k" }
    ])
    assert.deepStrictEqual(
      root.subagent_trajectories?.[0]?.steps.map(({ message }) => message),
      ["goal", "of the child"]
    )
  })

  it("other protocols: system apart, thinking, blocks, images by address, bytes by their type", () => {
    const s = stream()
    s.scope("start", "llm", "L", "A", {
      data: {
        system: [{ type: "text", text: "be kind" }],
        messages: [
          user([
            { type: "text", text: "look" },
            { type: "image_url", image_url: { url: "https://x.test/a.png" } },
            { type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } }
          ]),
          user([{ type: "tool_result", tool_use_id: "t", content: "r" }])
        ]
      }
    })
    s.scope("end", "llm", "L", "A", {
      data: {
        model: "claude",
        content: [
          { type: "thinking", thinking: "hm" },
          { type: "text", text: "see" },
          { type: "tool_use", id: "t", name: "n", input: { a: 1 } }
        ],
        usage: {
          input_tokens: 5,
          cache_read_input_tokens: 2,
          cache_creation_input_tokens: 3,
          output_tokens: 1,
          novel: 7
        }
      }
    })
    const { steps } = only(s.events)
    assert.deepStrictEqual(
      steps.map(({ source }) => source),
      ["system", "user", "agent"]
    )
    assert.deepStrictEqual(steps[1]?.message, [
      { type: "text", text: "look" },
      { type: "image", source: { media_type: "image/png", path: "https://x.test/a.png" } },
      { type: "text", text: "[image/png]" }
    ])
    assert.deepInclude(steps[2], { message: "see", reasoning_content: "hm", model_name: "claude" })
    assert.deepStrictEqual(steps[2]?.metrics, {
      prompt_tokens: 10,
      completion_tokens: 1,
      cached_tokens: 2,
      extra: { cache_creation_input_tokens: 3, novel: 7 }
    })
  })

  it("70 fifty sessions with children at once make fifty right trees", () => {
    const record = RecordEntries.make(Runs.agent)
    const all = Array.from({ length: 50 }, (_, index) => `s${index}`)
    const call = (session: string) => ({ id: "d", name: "delegate_task", args: { goal: `goal of ${session}` } })
    const child = (session: string) => ({
      session: `${session}-child`,
      goal: `goal of ${session}`,
      subagentId: `sa-${session}`
    })
    for (const s of all) {
      record.begin(s, `hello ${s}`)
      record.ask(s, { text: `${s} 1`, calls: [call(s)] })
    }
    for (const s of all) record.call(s, call(s))
    for (const s of all.toReversed()) record.child(s, "d", child(s))
    for (const s of all) record.begin(`${s}-child`, `goal of ${s}`, { ...child(s), session: s, callId: "d" })
    for (const s of all) record.ask(`${s}-child`, { text: "done" })
    for (const s of all.toReversed()) record.childEnded(s, child(s))
    for (const s of all) record.result(s, call(s), s)
    record.close()
    const { trajectories } = AtifConvert.convert(Atof.sortByTime(record.events))
    assert.deepStrictEqual(
      trajectories.map(({ session_id: id }) => id),
      all
    )
    for (const one of trajectories) {
      sound(one)
      assert.deepStrictEqual(
        one.steps.map(({ message }) => message),
        [`hello ${one.session_id}`, `${one.session_id} 1`]
      )
      assert.deepStrictEqual(
        one.subagent_trajectories?.map((child) => [child.session_id, child.steps[0]?.message]),
        [[`${one.session_id}-child`, `goal of ${one.session_id}`]]
      )
    }
  })
})

const valid = (): Record<string, unknown> => ({
  schema_version: "ATIF-v1.7",
  session_id: "s",
  trajectory_id: "t",
  agent: { name: "a", version: "1" },
  steps: [
    { step_id: 1, source: "user", message: "u", timestamp: "2026-01-01T00:00:00Z" },
    {
      step_id: 2,
      source: "agent",
      message: "",
      llm_call_count: 1,
      metrics: { prompt_tokens: 2, cached_tokens: 1 },
      tool_calls: [{ tool_call_id: "c", function_name: "f", arguments: {} }],
      observation: {
        results: [{ source_call_id: "c", content: "r", subagent_trajectory_ref: [{ trajectory_id: "k" }] }]
      }
    }
  ],
  final_metrics: { total_steps: 2 },
  subagent_trajectories: [
    {
      schema_version: "ATIF-v1.7",
      trajectory_id: "k",
      agent: { name: "b", version: "1" },
      steps: [{ step_id: 1, source: "user", message: "g" }]
    }
  ]
})

/** A valid document with one place set to another value, or taken away. */
const mutated = (path: string, value?: unknown): Record<string, unknown> => {
  const document = valid()
  const keys = path.split(".")
  const last = keys.pop() ?? ""
  const target = keys.reduce((at, key) => at[key] as Record<string, unknown>, document)
  if (value === undefined) delete target[last]
  else target[last] = value
  return document
}

describe("the rules of a document", () => {
  it("74 a sound one has no issue", () => {
    assert.deepStrictEqual(AtifCheck.check(valid()), [])
    assert.deepStrictEqual(AtifSchema.errors(valid()), [])
  })

  it("74 nothing that the JSON Schema refuses is sound", () => {
    const accepted = wrong.filter(
      ([path, value]) =>
        AtifSchema.errors(mutated(path, value)).length > 0 && AtifCheck.isSound(AtifCheck.check(mutated(path, value)))
    )
    assert.deepStrictEqual(accepted, [])
    assert.isAbove(wrong.filter(([path, value]) => AtifSchema.errors(mutated(path, value)).length > 0).length, 40)
  })

  const wrong: ReadonlyArray<readonly [string, unknown?]> = [
    ["schema_version"],
    ["schema_version", "ATIF-v1.8"],
    ["schema_version", "1.7"],
    ["agent"],
    ["agent.version"],
    ["agent.version", ""],
    ["agent.name"],
    ["session_id", 1],
    ["session_id", ""],
    ["trajectory_id", ""],
    ["novel", 1],
    ["agent.novel", 1],
    ["steps.0.novel", 1],
    ["steps.1.tool_calls.0.novel", 1],
    ["steps.1.metrics.novel", 1],
    ["final_metrics.novel", 1],
    ["steps", []],
    ["steps"],
    ["steps", {}],
    ["steps.0.step_id", 0],
    ["steps.0.step_id", 2],
    ["steps.1.step_id", "2"],
    ["steps.1.step_id", 2.5],
    ["steps.0.message"],
    ["steps.0.message", null],
    ["steps.0.message", {}],
    ["steps.0.message", [{ type: "text" }]],
    ["steps.0.message", [{ type: "text", text: "a", source: {} }]],
    ["steps.0.message", [{ type: "image", text: "a" }]],
    ["steps.0.message", [{ type: "image", source: { media_type: "image/bmp", path: "a" } }]],
    ["steps.0.message", [{ type: "image_url", image_url: { url: "a" } }]],
    ["steps.0.message", [{ type: "audio", source: { media_type: "wav", path: "a" } }]],
    ["steps.0.source", "tool"],
    ["steps.0.source"],
    ["steps.0.timestamp", "yesterday"],
    ["steps.0.timestamp", 5],
    ["steps.0.tool_calls", []],
    ["steps.0.metrics", {}],
    ["steps.0.model_name", "m"],
    ["steps.0.reasoning_content", "r"],
    ["steps.0.reasoning_effort", "low"],
    ["steps.1.llm_call_count", -1],
    ["steps.1.llm_call_count", 0],
    ["steps.1.reasoning_effort", true],
    ["steps.1.is_copied_context", "yes"],
    ["steps.1.tool_calls.0.tool_call_id"],
    ["steps.1.tool_calls.0.tool_call_id", ""],
    ["steps.1.tool_calls.0.arguments"],
    ["steps.1.tool_calls.0.arguments", "{}"],
    ["steps.1.tool_calls.0.arguments", null],
    ["steps.1.tool_calls.0.function_name"],
    ["steps.1.observation", {}],
    ["steps.1.observation.results.0.source_call_id", "x"],
    ["steps.0.observation", { results: [{ source_call_id: "c", content: "r" }] }],
    ["steps.1.observation.results.0.content", {}],
    ["steps.1.observation.results.0.content", 1],
    ["steps.1.observation.results.0.subagent_trajectory_ref", [{ session_id: "s" }]],
    ["steps.1.observation.results.0.subagent_trajectory_ref", { trajectory_id: "k" }],
    ["steps.1.observation.results.0.subagent_trajectory_ref", [{ trajectory_id: "nobody" }]],
    ["subagent_trajectories.0.trajectory_id"],
    ["subagent_trajectories.0.trajectory_id", "t"],
    ["subagent_trajectories.0.agent"],
    ["subagent_trajectories.0.steps", []],
    ["steps.1.metrics.prompt_tokens", 1.5],
    ["steps.1.metrics.prompt_tokens", -1],
    ["steps.1.metrics.cached_tokens", 3],
    ["final_metrics.total_steps", -1],
    ["final_metrics.total_steps", 3],
    ["extra", []],
    [
      "steps.1.tool_calls",
      [
        { tool_call_id: "c", function_name: "f", arguments: {} },
        { tool_call_id: "c", function_name: "f", arguments: {} }
      ]
    ]
  ]
  for (const [path, value] of wrong) {
    it(`74 ${path} ${value === undefined ? "absent" : JSON.stringify(value)} is an error`, () => {
      assert.isFalse(AtifCheck.isSound(AtifCheck.check(mutated(path, value))))
    })
  }

  const odd: ReadonlyArray<readonly [string, unknown?]> = [
    ["session_id"],
    ["steps.0.timestamp", "2026-01-01"],
    ["steps.0.timestamp", "2026-01-01T00:00:00"],
    ["steps.1.observation"],
    ["steps.1.observation.results.0.subagent_trajectory_ref"],
    ["steps.1.timestamp", "2025-01-01T00:00:00Z"],
    ["steps.1.observation.results", [{ source_call_id: "c" }]]
  ]
  for (const [path, value] of odd) {
    it(`74 ${path} ${value === undefined ? "absent" : JSON.stringify(value)} is a warning`, () => {
      const issues = AtifCheck.check(mutated(path, value))
      assert.isTrue(AtifCheck.isSound(issues))
      assert.isNotEmpty(issues)
    })
  }

  it("an issue says where it is", () => {
    const [issue] = AtifCheck.check(mutated("steps.1.tool_calls.0.arguments", "{}"))
    assert.strictEqual(issue?.path, "steps[1].tool_calls[0].arguments")
  })

  it("local images are listed, addresses are not", () => {
    const part = (path: string) => ({ type: "image", source: { media_type: "image/png", path } })
    const document = Result.getOrThrow(
      Atif.decode(mutated("steps.0.message", [part("a.png"), part("https://x/b.png")]))
    )
    assert.deepStrictEqual(AtifCheck.listLocalImages(document), ["a.png"])
  })

  prop("a document that is read and written is the same", { document: Atif.Trajectory }, ({ document }) => {
    const text = JSON.stringify(document)
    const read = Result.getOrThrow(Atif.decode(JSON.parse(text)))
    assert.deepStrictEqual(
      JSON.parse(JSON.stringify(Result.getOrThrow(Schema.encodeResult(Atif.Trajectory)(read)))),
      JSON.parse(text)
    )
  })
})

describe("files", () => {
  const exported = (directory: string, options: Partial<AtifWriter.Options>) => {
    const tracing = TracePlugin.make({
      agent: Runs.agent,
      atof: { directory, filename: "events.jsonl", mode: "append" },
      atif: {
        directory,
        filenameTemplate: "t-{session_id}.json",
        subagents: "embedded",
        agentName: Runs.agent.name,
        agentVersion: Runs.agent.version,
        ...options
      }
    })
    return Effect.provide(
      Agent.run({ prompt: "go", sessionId: "../s 1" }),
      Runs.runtime(Runs.parallel, [], [], [tracing]).layer
    )
  }

  it.live("what is written live is what the event file converts to", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      yield* exported(directory, {})
      assert.deepStrictEqual(readdirSync(directory).toSorted(), ["events.jsonl", "t-.._s_1.json"])
      const live = JSON.parse(readFileSync(join(directory, "t-.._s_1.json"), "utf8")) as Atif.Trajectory
      sound(live)
      assert.deepStrictEqual(
        Recorded.substance(only(Atof.parse(readFileSync(join(directory, "events.jsonl"), "utf8")).events)),
        Recorded.substance(live)
      )
    })
  )

  it.live("73 a directory that can not be written is a warning, and the run's result stands", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      writeFileSync(join(directory, "taken"), "")
      yield* exported(join(directory, "taken"), {})
      assert.deepStrictEqual(readdirSync(directory), ["taken"])
    })
  )

  it.live("58 in mode all each child has a file of its own, in mode embedded none", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      for (const subagents of ["embedded", "all"] as const) {
        const into = join(directory, subagents)
        mkdirSync(into)
        const tracing = TracePlugin.make({
          agent: Runs.agent,
          atof: undefined,
          atif: { directory: into, filenameTemplate: "{session_id}.json", subagents }
        })
        yield* Effect.provide(
          Agent.run({ prompt: "go", sessionId: "S" }),
          Runtime.layer({
            provider: Scripted.layer([
              Scripted.complete({ toolCalls: [{ name: "delegate_task", params: { tasks: [{ goal: "one" }] } }] }),
              Scripted.complete("child"),
              Scripted.complete("done")
            ]),
            tools: [Delegate.toolset],
            plugins: [tracing]
          })
        )
        const files = readdirSync(into).toSorted()
        const all = files.map((file) => sound(JSON.parse(readFileSync(join(into, file), "utf8")) as Atif.Trajectory))
        const root = all.find(({ session_id: id }) => id === "S")
        assert.strictEqual(files.length, subagents === "all" ? 2 : 1)
        assert.deepStrictEqual(
          all.filter((one) => one !== root),
          subagents === "all" ? root?.subagent_trajectories : []
        )
      }
    })
  )

  it("a template without a place for the session gets one", () => {
    assert.strictEqual(AtifWriter.checkTemplate("a.json").template, "a-{session_id}.json")
    assert.strictEqual(AtifWriter.checkTemplate("../x/{session_id}").template, "{session_id}")
    assert.isDefined(AtifWriter.checkTemplate("../x/{session_id}").warning)
    assert.isUndefined(AtifWriter.checkTemplate("h-{session_id}.json").warning)
  })
})
