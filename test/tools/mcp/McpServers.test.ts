import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"
import * as Clarifier from "../../../src/tools/builtin/Clarifier.ts"
import * as SideModel from "../../../src/tools/builtin/SideModel.ts"
import { isAlive } from "../../support/terminalTools.ts"
import { eventually } from "../../support/waiting.ts"
import { connected, everythingHttp, everythingOf, fixtureOf, section } from "./support/servers.ts"

const text = (output: unknown): string => (typeof output === "string" ? output : JSON.stringify(output))

describe("published servers", () => {
  it.live("over stdio: tools, resources, prompts, images, structured content, progress", () =>
    Effect.gen(function* () {
      const { call, snapshot, servers } = yield* connected({ every: everythingOf() })
      const { get, names } = yield* snapshot
      assert.includeMembers(
        [...names],
        [
          "mcp__every__echo",
          "mcp__every__get-sum",
          "mcp__every__list_resources",
          "mcp__every__read_resource",
          "mcp__every__list_prompts",
          "mcp__every__get_prompt"
        ]
      )
      assert.strictEqual(get("mcp__every__echo")?.toolset, "mcp-every")
      assert.deepStrictEqual(
        (yield* servers.status).map(({ name, state }) => [name, state]),
        [["every", "connected"]]
      )

      const echo = yield* call("mcp__every__echo", { message: "hello" })
      assert.deepStrictEqual([echo.isFailure, echo.output], [false, "Echo: hello"])
      const bad = yield* call("mcp__every__get-sum", { a: "x" })
      assert.isTrue(bad.isFailure)
      const image = yield* call("mcp__every__get-tiny-image", {})
      assert.include(text(image.output), "image you requested")
      assert.include(
        (image.modelOutput ?? []).map(({ type }) => type),
        "file"
      )
      const structured = yield* call("mcp__every__get-structured-content", { location: "Chicago" })
      assert.include(text(structured.output), "temperature")
      const resources = yield* call("mcp__every__list_resources", {})
      const uri = /"uri":"([^"]+)"/.exec(text(resources.output))?.[1] ?? ""
      const read = yield* call("mcp__every__read_resource", { uri })
      assert.isFalse(read.isFailure)
      const prompt = yield* call("mcp__every__get_prompt", { name: "args-prompt", arguments: { city: "Paris" } })
      assert.include(text(prompt.output), "Paris")
      const wrong = yield* call("mcp__every__get_prompt", { name: "args-prompt", arguments: { city: 5 } })
      assert.isTrue(wrong.isFailure)
      const progress: Array<unknown> = []
      yield* call("mcp__every__trigger-long-running-operation", { duration: 0.4, steps: 4 }, (output) =>
        Effect.sync(() => progress.push(output))
      )
      assert.isNotEmpty(progress)
    })
  )

  it.live("what a server asks in the middle of a call is asked of the user of that call, field by field", () =>
    Effect.gen(function* () {
      const { call } = yield* connected({ every: everythingOf() })
      const asked: Array<string> = []
      const user: Clarifier.Ask = ({ choices, multiple, question }) =>
        Effect.sync(() => {
          asked.push(question)
          const own = choices.filter((choice) => !/^(?:Use the default: |Leave it empty$)/u.test(choice))
          if (own.length > 0) return multiple ? own.slice(0, 2) : own.slice(0, 1)
          if (question.startsWith("That does not fit")) return ["5"]
          if (question.startsWith("String with email")) return ["a@example.org"]
          if (question.includes("uri")) return ["https://example.org"]
          if (question.includes("date")) return ["2000-01-02"]
          return ["Number", "Integer"].some((word) => question.startsWith(word)) ? ["many"] : ["Jo"]
        })
      const { isFailure, output } = yield* call("mcp__every__trigger-elicitation-request", {}).pipe(
        Effect.provideService(Clarifier.Clarifier, user)
      )
      assert.isFalse(isFailure, text(output))
      assert.match(asked[0] ?? "", /^The MCP server "every" asks: Please provide inputs/)
      assert.include(text(output), "Jo")
      assert.isTrue(asked.some((question) => question.startsWith("That does not fit. ")))

      const declining: Clarifier.Ask = ({ choices }) => Effect.succeed(choices.slice(1))
      const declined = yield* Effect.provideService(
        call("mcp__every__trigger-elicitation-request", {}),
        Clarifier.Clarifier,
        declining
      )
      assert.match(text(declined.output), /declined/i)
      assert.match(
        text((yield* call("mcp__every__trigger-elicitation-request", {})).output),
        /declined/i,
        "nobody is there"
      )
    })
  )

  it.live("what a server wants a model to say is for the side model, where the configuration allows it", () =>
    Effect.gen(function* () {
      const { call, snapshot } = yield* connected({
        every: everythingOf({ sampling: { enabled: true }, elicitation: { enabled: false } }),
        strict: everythingOf()
      })
      const { names } = yield* snapshot
      assert.include(names, "mcp__every__trigger-sampling-request")
      assert.notInclude(names, "mcp__every__trigger-elicitation-request")
      assert.notInclude(names, "mcp__strict__trigger-sampling-request")
      const side: SideModel.Ask = (task, messages) => Effect.succeed(`${task} was asked ${messages.length} things`)
      const { output } = yield* call("mcp__every__trigger-sampling-request", { prompt: "Say hi", maxTokens: 10 }).pipe(
        Effect.provideService(SideModel.SideModel, side)
      )
      assert.match(text(output), /mcp was asked [12] things/)
      const without = yield* call("mcp__every__trigger-sampling-request", { prompt: "Say hi", maxTokens: 10 })
      assert.isTrue(without.isFailure, text(without.output))
    })
  )

  it.live("over HTTP, of 2025 and of 2024", () =>
    Effect.gen(function* () {
      const url = yield* everythingHttp("streamableHttp")
      const old = yield* everythingHttp("sse")
      const { call } = yield* connected({ web: section({ url }), old: section({ url: old }) })
      assert.strictEqual((yield* call("mcp__web__echo", { message: "a" })).output, "Echo: a")
      assert.strictEqual((yield* call("mcp__old__echo", { message: "b" })).output, "Echo: b")
    })
  )
})

describe("a server of a configuration", () => {
  it.live("names are cleaned, trusted annotations kept, an un-annotated tool counts as destructive", () =>
    Effect.gen(function* () {
      const { snapshot } = yield* connected({ "my server": fixtureOf("good", { trust: "annotations" }) })
      const { get } = yield* snapshot
      const facts = (name: string) => get(name)?.facts
      assert.include(facts("mcp__my_server__plain"), { destructive: true, readonly: false })
      assert.include(facts("mcp__my_server__look_up_"), { destructive: false, readonly: true })
      assert.include(facts("mcp__my_server__add"), { destructive: false, readonly: false, idempotent: true })
    })
  )

  it.live("filters are on the server's own names, include wins, and nothing left makes no toolset", () =>
    Effect.gen(function* () {
      const { registry, snapshot } = yield* connected({
        a: fixtureOf("good", { tools: { include: ["look*", "big"], exclude: ["big"] } }),
        b: fixtureOf("good", { tools: { exclude: ["*"] } }),
        off: fixtureOf("good", { enabled: false })
      })
      assert.deepStrictEqual([...(yield* snapshot).names].toSorted(), ["mcp__a__big", "mcp__a__look_up_"])
      assert.deepStrictEqual(
        (yield* registry.list).map(({ toolset }) => toolset),
        ["mcp-a"]
      )
    })
  )

  it.live("which tools need an approval: trusted hints of the server, and the settings for each tool or for all", () =>
    Effect.gen(function* () {
      // `plain` says nothing of itself, `look up!` only reads, `add` destroys nothing.
      const asks = Effect.fnUntraced(function* (more: Record<string, unknown>) {
        const { snapshot } = yield* connected({ x: fixtureOf("good", more) })
        const { get } = yield* snapshot
        return ["plain", "big", "look_up_", "add"].filter((name) => get(`mcp__x__${name}`)?.tool.needsApproval === true)
      })
      assert.deepStrictEqual(yield* asks({}), ["plain", "big", "look_up_", "add"])
      assert.deepStrictEqual(yield* asks({ trust: "untrusted" }), ["plain", "big", "look_up_", "add"])
      assert.deepStrictEqual(yield* asks({ trust: "annotations" }), ["plain", "big"])
      assert.deepStrictEqual(yield* asks({ trust: { tools: ["plain"] } }), ["big", "look_up_", "add"])
      assert.deepStrictEqual(yield* asks({ trust: { tools: ["plain"], annotations: true } }), ["big"])
      assert.deepStrictEqual(yield* asks({ trust: { tools: ["b*", "mcp__x__plain"] } }), ["plain", "look_up_", "add"])
      assert.deepStrictEqual(yield* asks({ trust: { tools: [] } }), ["plain", "big", "look_up_", "add"])
      assert.deepStrictEqual(yield* asks({ trust: "full" }), [])
    })
  )

  it.live("its program gets its own variables and no key of ours", () =>
    Effect.gen(function* () {
      process.env["OPENAI_API_KEY"] = "sk-secret"
      const { call } = yield* connected({ x: fixtureOf("good", { env: { MY_TOKEN: "mine" } }) })
      delete process.env["OPENAI_API_KEY"]
      const { output } = yield* call("mcp__x__environment", {})
      assert.include(text(output), "mine")
      assert.notInclude(text(output), "sk-secret")
    })
  )

  it.live("a failure that the tool reports is an error result", () =>
    Effect.gen(function* () {
      const { call } = yield* connected({ x: fixtureOf("good") })
      const result = yield* call("mcp__x__add", {})
      assert.deepStrictEqual([result.isFailure, result.output], [true, { error: "it did not work" }])
    })
  )

  it.live("calls reach it one after the other, unless it is said that they may overlap", () =>
    Effect.gen(function* () {
      const dir = yield* temporaryDirectory
      const [one, many] = [join(dir, "one"), join(dir, "many")]
      const { call } = yield* connected({
        one: fixtureOf("good", {}, [one]),
        many: fixtureOf("good", { supports_parallel_tool_calls: true }, [many])
      })
      const both = (server: string) =>
        Effect.all([call(`mcp__${server}__slow`, { n: 1 }), call(`mcp__${server}__slow`, { n: 2 })], { concurrency: 2 })
      yield* both("one")
      yield* both("many")
      assert.deepStrictEqual(readFileSync(one, "utf8"), "start 1\nend 1\nstart 2\nend 2\n")
      assert.match(readFileSync(many, "utf8"), /^start 1\nstart 2\n/)
    })
  )

  it.live("the snapshot changes only when the server says that its tools changed", () =>
    Effect.gen(function* () {
      const { call, snapshot } = yield* connected({ x: fixtureOf("good") })
      const before = yield* snapshot
      yield* call("mcp__x__plain", {})
      assert.strictEqual(yield* snapshot, before)
      yield* call("mcp__x__grow", {})
      yield* eventually(
        "the new tool",
        Effect.map(snapshot, ({ names }) => names.includes("mcp__x__grown"))
      )
    })
  )

  it.live("many tools are offered by a search", () =>
    Effect.gen(function* () {
      const { call, snapshot } = yield* connected({ x: fixtureOf("many") })
      assert.deepStrictEqual((yield* snapshot).names, ["mcp__x__search_tools"])
      const { output } = yield* call("mcp__x__search_tools", { query: "thing_42" })
      assert.include(text(output), "mcp__x__thing_42")
      assert.include((yield* snapshot).names, "mcp__x__thing_42")
      assert.isAtMost((yield* snapshot).names.length, 11)
      assert.include(text((yield* call("mcp__x__thing_42", { n: 1 })).output), "thing_42")
      assert.include(text((yield* call("mcp__x__search_tools", { query: "zebra" })).output), "other words")
    })
  )
})

describe("a server that misbehaves", () => {
  it.live("one that can not start leaves the others' tools alone", () =>
    Effect.gen(function* () {
      const { servers, snapshot } = yield* connected({
        none: section({ command: "no-such-program-anywhere" }),
        dies: fixtureOf("dies"),
        garbage: fixtureOf("garbage"),
        hangs: fixtureOf("hangs", { connect_timeout: 1 }),
        odd: fixtureOf("odd"),
        both: section({ command: "x", url: "http://localhost" }),
        neither: section({}),
        ftp: section({ url: "ftp://localhost/x" }),
        gone: section({ url: "http://127.0.0.1:9/mcp", connect_timeout: 5 }),
        good: fixtureOf("chatty")
      })
      const status = new Map((yield* servers.status).map((server) => [server.name, server]))
      assert.strictEqual(status.get("good")?.state, "connected")
      assert.include((yield* snapshot).names, "mcp__good__plain")
      for (const name of ["none", "dies", "garbage", "hangs", "odd", "both", "neither", "ftp", "gone"]) {
        assert.strictEqual(status.get(name)?.state, "failed", name)
        assert.include(status.get(name)?.message, name)
        assert.notInclude(status.get(name)?.message, "\n")
      }
      assert.include(status.get("none")?.message, "not found")
      assert.include(status.get("dies")?.message, "no licence found")
      assert.include(status.get("garbage")?.message, "Listening for customers")
      assert.include(status.get("hangs")?.message, "1 s")
    })
  )

  it.live("a result of 100 MB is cut off while it is read, and the server stays", () =>
    Effect.gen(function* () {
      const { call } = yield* connected({ x: fixtureOf("good") })
      const huge = yield* call("mcp__x__huge", {})
      assert.isTrue(huge.isFailure)
      assert.include(text(huge.output), "larger than 10 MB")
      const big = yield* call("mcp__x__big", {})
      assert.isBelow(text(big.output).length, 1_100_000)
      assert.include(text(big.output), "[cut:")
      assert.isFalse((yield* call("mcp__x__plain", {})).isFailure)
    })
  )

  it.live("one that crashes is an error result, and is connected again", () =>
    Effect.gen(function* () {
      const { call, servers } = yield* connected({ x: fixtureOf("good") })
      const crash = yield* call("mcp__x__crash", {})
      assert.isTrue(crash.isFailure)
      const meanwhile = yield* call("mcp__x__plain", {})
      assert.include(text(meanwhile.output), "is reconnecting")
      yield* eventually(
        "the server is back",
        Effect.map(servers.status, ([status]) => status?.state === "connected")
      )
      assert.isFalse((yield* call("mcp__x__plain", {})).isFailure)
    })
  )

  it.live("one that could not be connected at first is tried again, and its tools are there then", () =>
    Effect.gen(function* () {
      const file = join(yield* temporaryDirectory, "not-yet")
      writeFileSync(file, "")
      const { servers, snapshot } = yield* connected({ x: fixtureOf("late", {}, [file]) })
      assert.strictEqual((yield* servers.status)[0]?.state, "failed")
      assert.isEmpty((yield* snapshot).names)
      yield* eventually(
        "it is there",
        Effect.map(servers.status, ([status]) => status?.state === "connected")
      )
      assert.include((yield* snapshot).names, "mcp__x__plain")
    })
  )

  it.live("one that stands still while nobody asks anything is connected again", () =>
    Effect.gen(function* () {
      const { call, servers } = yield* connected({ x: fixtureOf("freezes", { keepalive: 0.2, connect_timeout: 1 }) })
      yield* eventually(
        "it was left",
        Effect.map(servers.status, ([status]) => status?.state === "reconnecting")
      )
      yield* eventually(
        "it is back",
        Effect.map(servers.status, ([status]) => status?.state === "connected")
      )
      assert.isFalse((yield* call("mcp__x__plain", {})).isFailure)
    })
  )

  it.live("one that answers whether it is there stays connected", () =>
    Effect.gen(function* () {
      const { call, servers } = yield* connected({ x: everythingOf({ keepalive: 0.05 }) })
      yield* call("mcp__x__trigger-long-running-operation", { duration: 1, steps: 2 })
      assert.strictEqual((yield* servers.status)[0]?.state, "connected")
    })
  )

  it.live("a call that takes too long fails", () =>
    Effect.gen(function* () {
      const { call } = yield* connected({ x: everythingOf({ timeout: 1 }) })
      const late = yield* call("mcp__x__trigger-long-running-operation", { duration: 60, steps: 1 })
      assert.isTrue(late.isFailure)
      assert.include(text(late.output), "timeout")
    })
  )

  it.live("no process is left behind, nor one that it started", () =>
    Effect.gen(function* () {
      const dir = yield* temporaryDirectory
      const file = join(dir, "pids")
      yield* Effect.scoped(connected({ x: fixtureOf("family", {}, [file]) }))
      const pids = readFileSync(file, "utf8").trim().split("\n").map(Number)
      assert.lengthOf(pids, 2)
      yield* eventually(
        "both ended",
        Effect.map(Effect.all(pids.map((pid) => isAlive(pid))), (alive) => alive.every((is) => !is))
      )
    }).pipe(Effect.provide(NodeServices.layer))
  )
})
