// For each rule of toolsets, providers, middleware and consumers of hooks something that breaks it, and is told so.
import { afterAll, assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Agent as AgentKey } from "../../../src/agent/Agent.ts"
import { makeTextDelta } from "../../../src/base/domain/ModelCall.ts"
import * as Hooks from "../../../src/hooks/Hooks.ts"
import * as Middleware from "../../../src/middleware/Middleware.ts"
import * as Plain from "../../../src/middleware/Plain.ts"
import type { Service } from "../../../src/models/provider/Provider.ts"
import * as Scripted from "../../../src/models/provider/Scripted.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import * as Conformance from "../../../src/kit/testing/Conformance.ts"
import { advanceClockUntilDone } from "../../../src/kit/testing/PlayedRuns.ts"
import * as ProviderRules from "../../../src/kit/testing/ProviderRules.ts"
import * as RunRules from "../../../src/kit/testing/RunRules.ts"
import * as ToolRules from "../../../src/kit/testing/ToolRules.ts"
import * as Toolset from "../../../src/tools/Toolset.ts"

interface Named {
  readonly about: string
  readonly name: string
}

const nameOf = ({ about, name }: Named) => `${about}: ${name}`

/** Nobody can interrupt it; it ends when the tests have. */
const gate = Deferred.makeUnsafe<never>()
let begun = 0
const hanging = Effect.uninterruptible(
  Effect.suspend(() => {
    begun++
    return Deferred.await(gate)
  })
)
afterAll(() => Effect.runPromise(Deferred.interrupt(gate)))

/**
 * Plays one rule against a subject that hangs, which it must break at, with all time that it waits passed at once: from
 * then on when the subject hangs, as before it could be interrupted.
 */
const brokenAtOnce = <R, E>(
  rule: Conformance.Rule<R> | undefined,
  subject: Layer.Layer<R, E>
): Effect.Effect<string | undefined> =>
  Effect.gen(function* () {
    const before = begun
    const hangs = () => begun > before
    const played = yield* Effect.forkChild(
      Effect.provide(Conformance.runRules(rule === undefined ? [] : [rule], subject), Logger.layer([]))
    )
    while (!hangs() && played.pollUnsafe() === undefined)
      yield* Effect.promise(() => new Promise<void>((resolve) => setTimeout(resolve)))
    const [result] = yield* advanceClockUntilDone(Fiber.join(played))
    return result?.broken?.message
  })

/** A test for each rule: the subject that is named for it breaks it. */
const broken = <R, E>(
  rules: ReadonlyArray<Conformance.Rule<R>>,
  subjects: Readonly<Record<string, Layer.Layer<R, E>>>
): void => {
  for (const rule of rules.filter(({ name }) => !/interrupted$|interrupted end$/.test(name))) {
    const subject = subjects[nameOf(rule)]
    it.live(nameOf(rule), () =>
      Effect.gen(function* () {
        if (subject === undefined) return assert.fail("nothing here breaks it")
        const [result] = yield* Effect.provide(Conformance.runRules([rule], subject), Logger.layer([]))
        assert.isDefined(result?.broken)
      })
    )
  }
  it("no subject is left over", () => {
    const known = new Set(rules.map(nameOf))
    assert.deepStrictEqual(
      Object.keys(subjects).filter((name) => !known.has(name)),
      []
    )
  })
}

type Runtimes = Readonly<Record<string, Layer.Layer<RunRules.Subject>>>
const scriptsOf = (prefix: string, rules: ReadonlyArray<Named>, subject: Layer.Layer<RunRules.Subject>): Runtimes =>
  Object.fromEntries(
    rules
      .map(nameOf)
      .filter((name) => name.startsWith(prefix))
      .map((name) => [name, subject])
  )

const subject = (runtime: RunRules.MakeRuntime) => Layer.succeed(RunRules.Subject, { runtime })
const wrapped = (...middleware: ReadonlyArray<Middleware.Contained>) =>
  subject((parts) => Runtime.layer({ ...parts, middleware }))

/** A runtime whose agent is changed: middleware alone cannot do everything that is ruled out. */
const agentThat = (change: (agent: (typeof AgentKey)["Service"]) => Partial<(typeof AgentKey)["Service"]>) =>
  subject((parts) =>
    Layer.effect(
      AgentKey,
      Effect.map(AgentKey, (agent) => ({ ...agent, ...change(agent) }))
    ).pipe(Layer.provide(Runtime.layer(parts)))
  )

describe("what hangs and cannot be interrupted", () => {
  const named = <R>(rules: ReadonlyArray<Conformance.Rule<R>>, pattern: RegExp) =>
    rules.find(({ name }) => pattern.test(name))
  const runs = agentThat(() => ({ run: () => hanging }))

  it.effect("breaks the rule of toolsets about interruption", () =>
    Effect.gen(function* () {
      const Wait = Tool.make("wait", { description: "Waits for ever", success: Schema.Finite })
      const toolkit = Toolkit.make(Wait)
      const toolset = Toolset.make("waits", toolkit, toolkit.toLayer({ wait: () => hanging }))
      const subject = Layer.effect(ToolRules.Subject, ToolRules.bindSubject(toolset, [{ tool: "wait", params: {} }]))
      assert.strictEqual(
        yield* brokenAtOnce(named(ToolRules.rules, /interrupted$/), subject),
        "wait should end within ten seconds of its interruption"
      )
    })
  )

  it.effect("breaks the rule of providers about interruption", () =>
    Effect.gen(function* () {
      const { provider } = yield* Scripted.make([])
      const silent: Service = { ...provider, execute: () => hanging }
      const message = yield* brokenAtOnce(
        named(ProviderRules.rules, /their interruption$/),
        Layer.succeed(ProviderRules.Subject, { answering: provider, silent })
      )
      assert.strictEqual(message, "a request should end within ten seconds of its interruption")
    })
  )

  it.effect("breaks the rules of runs about interruption", () =>
    Effect.gen(function* () {
      for (const rule of [named(RunRules.middleware, /interrupted$/), named(RunRules.hooks, /interrupted end$/)]) {
        assert.strictEqual(yield* brokenAtOnce(rule, runs), "a run should end within ten seconds of its interruption")
      }
    })
  )

  it.live("breaks any other rule, by the limit: its subject, its check, and its end", () =>
    Effect.gen(function* () {
      const box = Layer.effectDiscard(Effect.void)
      const limit = "20 millis"
      const over = "any: did not end within 20ms"
      const checks: ReadonlyArray<readonly [Conformance.Rule<never>, Layer.Layer<never>]> = [
        [Conformance.makeRule("box", "any", hanging), box],
        [Conformance.makeRule("box", "any", Effect.never), box],
        [Conformance.makeTimedRule("box", "any", Effect.sleep("1 hour")), box],
        [Conformance.makeRule("box", "any", Effect.void), Layer.effectDiscard(hanging)],
        [Conformance.makeRule("box", "any", Effect.void), Layer.effectDiscard(Effect.addFinalizer(() => hanging))],
        [
          Conformance.makeRule(
            "box",
            "any",
            Effect.addFinalizer(() => hanging)
          ),
          box
        ]
      ]
      for (const [rule, subject] of checks) {
        const [result] = yield* Conformance.runRules([rule], subject, { limit })
        assert.strictEqual(result?.broken?.message, over)
        for (const sharing of ["each", "all"] as const) {
          const tests: Array<() => Promise<void>> = []
          Conformance.register({ test: (_, run) => tests.push(run) }, [rule], subject, { limit, sharing })
          const refused = yield* Effect.promise(
            () =>
              tests[0]?.().then(
                () => undefined,
                (error: unknown) => error
              ) ?? Promise.resolve(undefined)
          )
          // A subject that is shared ends behind all rules.
          if (refused !== undefined) assert.strictEqual((refused as Error).message, over)
          else assert.strictEqual(sharing, "all")
        }
      }
    })
  )
})

describe("toolsets that break a rule", () => {
  const Double = Tool.make("double", {
    description: "Doubles a number",
    parameters: Schema.Struct({ n: Schema.Finite }),
    success: Schema.Finite
  })
  const toolkit = Toolkit.make(Double)
  const toolset = Toolset.make("maths", toolkit, toolkit.toLayer({ double: ({ n }) => Effect.succeed(n * 2) }))
  const changed = (change: (tool: Toolset.BoundTool) => Toolset.BoundTool) =>
    Layer.effect(
      ToolRules.Subject,
      Effect.map(ToolRules.bindSubject(toolset, [{ tool: "double", params: { n: 2 } }]), (tested) => ({
        ...tested,
        tools: tested.tools.map(change)
      }))
    )
  const defined = (definition: Partial<Toolset.BoundTool["definition"]>) =>
    changed((tool) => ({ ...tool, definition: { ...tool.definition, ...definition } }))

  broken(ToolRules.rules, {
    "definitions: have names that every model API takes, each once": defined({ name: "double it" }),
    "definitions: say what a tool does": defined({ description: " " }),
    "definitions: have an object schema that is JSON": defined({ parameters: { type: "string" } }),
    "calls: of the examples succeed with results that are JSON": changed((tool) => ({
      ...tool,
      run: (_, id) => tool.run({}, id)
    })),
    "calls: leave their arguments as they are": changed((tool) => ({
      ...tool,
      run: (params, id) => {
        Object.assign(params as object, { n: 3 })
        return tool.run(params, id)
      }
    })),
    "calls: with arguments that do not fit are failures that a model can read, and never defects": changed((tool) => ({
      ...tool,
      run: (params, id) => (typeof params === "object" ? tool.run(params, id) : Effect.die(params))
    }))
  })
})

describe("providers that break a rule", () => {
  const many = (turn: Scripted.Turn) =>
    Effect.map(Scripted.make(Array.from({ length: 8 }, () => turn)), ({ provider }) => provider)
  const answer = many(Scripted.complete({ pieces: ["hello ", "to you"] }))
  const answering = (change: (provider: Service) => Service) =>
    Layer.effect(
      ProviderRules.Subject,
      Effect.map(answer, (provider) => ({ answering: change(provider) }))
    )
  const beside = <E>(make: Effect.Effect<Omit<ProviderRules.TestedProvider, "answering">, E>) =>
    Layer.effect(
      ProviderRules.Subject,
      Effect.flatMap(answer, (answering) => Effect.map(make, (more) => ({ answering, ...more })))
    )
  let count = 0

  broken(ProviderRules.rules, {
    "requests: are the same for the same question, and the question stays as it is": answering((provider) => ({
      ...provider,
      prepare: (asked) => Effect.map(provider.prepare(asked), (request) => ({ ...request, count: ++count }))
    })),
    "requests: have the text and the tools of the question": answering((provider) => ({
      ...provider,
      prepare: (asked) => provider.prepare({ ...asked, tools: [], messages: asked.messages.slice(1) })
    })),
    "answers: in one piece have text, a reason for their end, and counts that are numbers": answering((provider) => ({
      ...provider,
      execute: (request, options) =>
        Effect.map(provider.execute(request, options), (response) => ({
          ...response,
          finishReason: "unknown" as const
        }))
    })),
    "answers: in pieces say in their pieces what the whole says": answering((provider) => ({
      ...provider,
      execute: (request, options) =>
        Effect.tap(
          provider.execute(request, options),
          () => options?.onPart?.([makeTextDelta("0", " and more")]) ?? Effect.void
        )
    })),
    "answers: that call a tool have its name, an id, and arguments that were read": beside(
      Effect.map(many(Scripted.complete({ toolCalls: [{ name: "lookup", params: '{"key": "a"' }] })), (calling) => ({
        calling
      }))
    ),
    "bodies: of answers are read back as these answers": answering((provider) => ({
      ...provider,
      decode: (raw) =>
        Effect.map(provider.decode(raw), (response) => ({
          ...response,
          parts: [Response.makePart("text", { text: "other" })]
        }))
    })),
    "bodies: that are none fail with AiError": answering((provider) => ({
      ...provider,
      decode: () => Effect.die("unread")
    })),
    "failures: are AiError, streamed or not": beside(
      Effect.map(answer, (provider) => ({ failing: { ...provider, execute: () => Effect.die("unread") } }))
    ),
    "requests: that are not answered end with their interruption": beside(Effect.map(answer, (silent) => ({ silent })))
  })
})

describe("middleware that breaks a rule", () => {
  const dying = agentThat(() => ({ run: () => Effect.die(new Error("a fault")) }))
  const again = Middleware.wrapToolCall({
    name: "again",
    wrap: (next) => (args) => Effect.andThen(next(args), next(args))
  })
  let runs = 0
  const sometimes = Middleware.wrapToolCall({
    name: "sometimes",
    wrap: (next) => (args) =>
      Effect.suspend(() =>
        ++runs % 2 === 0 ? Effect.succeed({ output: "no", isFailure: false, modelOutput: undefined }) : next(args)
      )
  })
  let last = "nothing"
  const shared = Middleware.wrapModelCall({
    name: "shared",
    wrap: (next) => (params) =>
      Effect.andThen(
        Effect.suspend(() => {
          last = JSON.stringify(params.call.messages.at(-1)).match(/exactly (\w+)/)?.[1] ?? last
          return Effect.sleep("50 millis")
        }),
        Effect.map(next(params), (answer) => ({
          ...answer,
          response: { ...answer.response, parts: [Response.makePart("text", { text: last })] }
        }))
      )
  })
  const told = Middleware.wrapModelCall({
    name: "told",
    wrap:
      (next, { notify }) =>
      (params) =>
        Effect.tap(next(params), () => notify?.([{ _tag: "TextDelta", text: " and more" }]) ?? Effect.void)
  })
  const forgetful = [
    Plain.llmExecution({ name: "forgetful" }, () => undefined),
    Plain.toolExecution({ name: "forgetful" }, () => undefined)
  ] as const

  broken(RunRules.middleware, {
    ...scriptsOf("middleware: lets a run end in what an agent may end in", RunRules.middleware, dying),
    ...scriptsOf("middleware: lets a run fail as its store does", RunRules.middleware, dying),
    ...scriptsOf("middleware: is not reported to have failed", RunRules.middleware, wrapped(...forgetful)),
    ...scriptsOf("middleware: shows the text that the run gives", RunRules.middleware, wrapped(told)),
    "middleware: lets a tool run once at most": wrapped(again),
    "middleware: does the same for the same run": wrapped(sometimes),
    "middleware: goes on with a session whose last run failed": dying,
    "middleware: keeps runs that are made side by side apart": wrapped(shared)
  })
})

describe("consumers of hooks that break a rule", () => {
  const failing = Hooks.on("on_session_end", () =>
    Effect.fail(new AiError.InternalProviderError({ description: "broken" }))
  )
  const observed = subject((parts) => Runtime.layer({ ...parts, hooks: [failing] }))
  const dying = agentThat(() => ({ run: () => Effect.die(new Error("a fault")) }))

  broken(RunRules.hooks, {
    ...scriptsOf("hooks: change nothing in a run, and give no warning", RunRules.hooks, observed),
    ...scriptsOf("hooks: change nothing in a run whose store fails", RunRules.hooks, dying),
    "hooks: let a session go on whose last run failed": dying,
    "hooks: keep runs that are made side by side apart": dying
  })
})
