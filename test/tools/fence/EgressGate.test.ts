// The gate for hosts: each door in each state, what the user typed, and what carries a secret.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Agent } from "../../../src/index.ts"
import type { ApprovalsLayer } from "../../../src/program/runtime/AgentLayer.ts"
import * as PermissionMode from "../../../src/base/config/PermissionMode.ts"
import type * as RunEvent from "../../../src/base/domain/RunEvent.ts"
import * as Secrets from "../../../src/base/domain/Secrets.ts"
import * as Scripted from "../../../src/models/provider/Scripted.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import * as Approvals from "../../../src/tools/Approvals.ts"
import * as Permissions from "../../../src/tools/approval/Permissions.ts"
import type { Question } from "../../../src/tools/approval/ApprovalRequest.ts"
import { WebSearch } from "../../../src/tools/builtin/SearchProvider.ts"
import { SideModel } from "../../../src/tools/builtin/SideModel.ts"
import * as Delegate from "../../../src/tools/builtin/Delegate.ts"
import * as TerminalTools from "../../../src/tools/builtin/TerminalTools.ts"
import * as Vision from "../../../src/tools/builtin/Vision.ts"
import * as WebTools from "../../../src/tools/builtin/WebTools.ts"
import * as EgressGate from "../../../src/tools/fence/EgressGate.ts"
import * as Urls from "../../../src/tools/fence/Urls.ts"
import { callTool } from "../../support/callTool.ts"
import { machine } from "../../support/hermesInProcess.ts"
import { webServer } from "../../support/webServer.ts"

const png = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64"
)

/** A server that counts the pages it gave; `/away` sends on to another one. */
const server = (elsewhere?: string) =>
  Effect.gen(function* () {
    const paths: Array<string> = []
    const url = yield* webServer(({ url = "" }, response) => {
      paths.push(url)
      if (url === "/away") response.writeHead(302, { location: `${elsewhere}/there` }).end()
      else if (url.endsWith(".png")) response.writeHead(200, { "content-type": "image/png" }).end(png)
      else response.writeHead(200, { "content-type": "text/plain" }).end("the page")
    })
    return { host: new URL(url).host, paths, url }
  })

type Server = Effect.Success<ReturnType<typeof server>>
type Call = { readonly name: string; readonly params: Readonly<Record<string, unknown>> }

/** A way out, to a server that it names or that its request is sent on to. */
interface Door {
  readonly name: string
  readonly call: (
    target: Server,
    path: string
  ) => Effect.Effect<
    { readonly call: Call; readonly hosts: ReadonlyArray<string> },
    never,
    import("effect/Scope").Scope
  >
  /** True where a plan may go through it at all. */
  readonly mayPlan: boolean
}

const doors: ReadonlyArray<Door> = [
  {
    name: "web_extract",
    call: ({ url }, path) =>
      Effect.succeed({ call: { name: "web_extract", params: { urls: [`${url}/${path}?d=anything`] } }, hosts: [] }),
    mayPlan: true
  },
  {
    name: "vision_analyze",
    call: ({ url }, path) =>
      Effect.succeed({ call: { name: "vision_analyze", params: { image_url: `${url}/${path}.png` } }, hosts: [] }),
    mayPlan: true
  },
  {
    name: "a redirect of web_extract",
    call: ({ url }) =>
      Effect.map(server(url), (first) => ({
        call: { name: "web_extract", params: { urls: [`${first.url}/away`] } },
        hosts: [first.host]
      })),
    mayPlan: true
  },
  {
    name: "a client in a command",
    call: ({ url }, path) =>
      Effect.succeed({ call: { name: "terminal", params: { command: `curl -sS ${url}/${path}` } }, hosts: [] }),
    mayPlan: false
  }
]

interface State {
  readonly approvals?: ApprovalsLayer
  readonly policy?: Partial<Urls.Policy>
  readonly mode?: PermissionMode.PermissionMode
  readonly typed?: ReadonlyArray<string>
}

/** Has the model make calls one after another; their results, and what was asked of the user. */
const run = Effect.fnUntraced(function* (calls: ReadonlyArray<Call>, { approvals, mode, policy, typed = [] }: State) {
  const results: Array<string> = []
  const onEvent = (events: ReadonlyArray<RunEvent.RunEvent>) =>
    Effect.sync(() => {
      for (const event of events) if (event._tag === "ToolFinished") results.push(event.output)
    })
  // A child agent says that it is done too.
  const done = [Scripted.complete("done"), Scripted.complete("done")]
  const script = Scripted.layer([...calls.map((call) => Scripted.complete({ toolCalls: [call] })), ...done])
  const runtime = Runtime.layer({
    provider: script,
    approvals,
    tools: [WebTools.toolset, Vision.toolset, TerminalTools.toolset, Delegate.toolset]
  })
  yield* Agent.run({ prompt: "go", onEvent }).pipe(
    Effect.provide(runtime),
    Effect.provideService(SideModel, () => Effect.succeed("a dot")),
    Effect.provideService(Urls.UrlPolicy, { ...Urls.strict, allowPrivate: true, ...policy }),
    Effect.provideService(PermissionMode.CurrentMode, mode),
    Effect.provideService(EgressGate.TypedAddresses, new Set(typed.flatMap(EgressGate.findAddresses)))
  )
  return results
})

const policy = { unknownCommands: "allow" } as const

const answering = (choice: string) => {
  const asked: Array<Question> = []
  const approver = Approvals.layerCallback(
    (question) =>
      Effect.sync(() => {
        asked.push(question)
        return choice
      }),
    policy
  )
  return { asked, approvals: approver }
}

const hostsIn = (asked: ReadonlyArray<Question>): ReadonlyArray<string> =>
  asked.flatMap(({ targets }) => targets.map(({ text }) => text))

const withRules = (deny: ReadonlyArray<string>, allow: ReadonlyArray<string> = []): ApprovalsLayer =>
  Layer.provide(
    Approvals.layerDeny(policy),
    Layer.effect(Permissions.Permissions, Permissions.fromSettings({ allow, ask: [], deny }))
  )

/** Runs the calls of a door to a new server; tells whether it was reached by each. */
const through = Effect.fnUntraced(function* ({ call }: Door, count: number, state: (target: Server) => State) {
  const target = yield* server()
  const made = yield* Effect.forEach(
    Array.from({ length: count }, (_, index) => `p${index}`),
    (path) => call(target, path)
  )
  const { policy, ...rest } = state(target)
  const hosts = [...made.flatMap(({ hosts }) => hosts), ...(policy?.hosts ?? [])]
  const results = yield* run(
    made.map(({ call }) => call),
    { ...rest, policy: { ...policy, hosts } }
  )
  return { host: target.host, reached: target.paths.length, results }
})

for (const door of doors) {
  describe(`a host behind ${door.name}`, () => {
    it.live("is asked about when it is new, and reached after a yes", () =>
      Effect.gen(function* () {
        const { approvals, asked } = answering("once")
        const { host, reached, results } = yield* through(door, 2, () => ({ approvals }))
        assert.deepStrictEqual(hostsIn(asked), [host, host], results.join("\n"))
        assert.strictEqual(reached, 2, results.join("\n"))
      })
    )

    it.live("is not reached after a no", () =>
      Effect.gen(function* () {
        const { approvals, asked } = answering("deny")
        const { host, reached } = yield* through(door, 1, () => ({ approvals }))
        assert.deepStrictEqual([hostsIn(asked), reached], [[host], 0])
      })
    )

    it.live("is reached again without a question after a yes for the session", () =>
      Effect.gen(function* () {
        const { approvals, asked } = answering("session")
        const { host, reached } = yield* through(door, 2, () => ({ approvals }))
        assert.deepStrictEqual([hostsIn(asked), reached], [[host], 2])
      })
    )

    it.live("is refused where no user can be asked", () =>
      Effect.gen(function* () {
        for (const state of [{}, { approvals: Approvals.layerDeny(policy) }]) {
          const { host, reached, results } = yield* through(door, 1, () => state)
          assert.strictEqual(reached, 0)
          assert.include(results[0], `${host}, a host that is not approved`)
        }
      })
    )

    it.live("is reached where it is listed, by the policy or by a rule", () =>
      Effect.gen(function* () {
        const listed = yield* through(door, 1, ({ host }) => ({
          approvals: Approvals.layerDeny(policy),
          policy: { hosts: [host] }
        }))
        assert.strictEqual(listed.reached, 1, listed.results.join("\n"))
        const ruled = yield* through(door, 1, ({ host }) => ({ approvals: withRules([], [`web(${host})`]) }))
        assert.strictEqual(ruled.reached, 1, ruled.results.join("\n"))
      })
    )

    it.live("is refused where a rule denies it, listed or not, also where the gate is open", () =>
      Effect.gen(function* () {
        const denied = (state: (host: string) => Partial<Urls.Policy>) =>
          through(door, 1, ({ host }) => ({ approvals: withRules([`web(${host})`]), policy: state(host) }))
        for (const state of [
          () => ({}),
          (host: string) => ({ hosts: [host] }),
          () => ({ unknownHosts: "allow" as const })
        ]) {
          assert.strictEqual((yield* denied(state)).reached, 0)
        }
      })
    )

    it.live("is asked about while the agent plans", () =>
      Effect.gen(function* () {
        const { approvals, asked } = answering("once")
        const { host, reached } = yield* through(door, 1, () => ({ approvals, mode: "plan" }))
        assert.deepStrictEqual([hostsIn(asked), reached], door.mayPlan ? [[host], 1] : [[], 0])
        assert.strictEqual((yield* through(door, 1, () => ({ mode: "plan" }))).reached, 0)
      })
    )

    it.live("is reached without a question in the mode yolo, and where the gate is open", () =>
      Effect.gen(function* () {
        const { approvals, asked } = answering("deny")
        const yolo = yield* through(door, 1, () => ({ approvals, mode: "yolo" }))
        const open = yield* through(door, 1, () => ({ approvals, policy: { unknownHosts: "allow" } }))
        assert.deepStrictEqual(
          [yolo.reached, open.reached, asked.length],
          [1, 1, 0],
          [...yolo.results, ...open.results].join("\n")
        )
      })
    )
  })
}

describe("the rule `web` without a host", () => {
  it.live("denies and allows all hosts of the web tools", () =>
    Effect.gen(function* () {
      for (const door of doors.filter(({ mayPlan }) => mayPlan)) {
        const denied = yield* through(door, 1, ({ host }) => ({
          approvals: withRules(["web"]),
          policy: { hosts: [host] }
        }))
        const allowed = yield* through(door, 1, () => ({ approvals: withRules([], ["web"]) }))
        assert.deepStrictEqual([denied.reached, allowed.reached], [0, 1], door.name)
      }
    })
  )
})

describe("an approval at one door", () => {
  it.live("holds at the others", () =>
    Effect.gen(function* () {
      const target = yield* server()
      const calls = yield* Effect.forEach(doors, ({ call }, index) => call(target, `p${index}`))
      const { approvals, asked } = answering("session")
      yield* run(
        calls.map(({ call }) => call),
        { approvals, policy: { hosts: calls.flatMap(({ hosts }) => hosts) } }
      )
      assert.deepStrictEqual([hostsIn(asked), target.paths.length], [[target.host], doors.length])
    })
  )
})

describe("a child agent", () => {
  it.live(
    "reaches the hosts that were approved for the session of its parent, and addresses that the user typed, and asks nothing",
    () =>
      Effect.gen(function* () {
        const [approved, typed, other] = [yield* server(), yield* server(), yield* server()]
        const read = (url: string): Call => ({ name: "web_extract", params: { urls: [url] } })
        const { approvals, asked } = answering("session")
        yield* run(
          [
            read(`${approved.url}/parent`),
            { name: "delegate_task", params: { goal: "look around" } },
            read(`${approved.url}/child`),
            read(`${typed.url}/doc`),
            read(`${other.url}/x`)
          ],
          { approvals, typed: [`${typed.url}/doc`] }
        )
        assert.deepStrictEqual([approved.paths, typed.paths, other.paths], [["/parent", "/child"], ["/doc"], []])
        assert.deepStrictEqual(hostsIn(asked), [approved.host])
      })
  )
})

describe("an option of the runtime", () => {
  it.live("lists hosts", () =>
    Effect.gen(function* () {
      const target = yield* server()
      const ask = (hosts: ReadonlyArray<string> | undefined) =>
        Agent.run({ prompt: "go" }).pipe(
          Effect.provide(
            Runtime.layer({
              hosts,
              tools: [WebTools.toolset],
              provider: Scripted.layer([
                Scripted.complete({ toolCalls: [{ name: "web_extract", params: { urls: [`${target.url}/x`] } }] }),
                Scripted.complete("done")
              ])
            })
          ),
          Effect.provideService(Urls.UrlPolicy, { ...Urls.strict, allowPrivate: true })
        )
      yield* ask(undefined)
      assert.isEmpty(target.paths)
      yield* ask([target.host])
      assert.deepStrictEqual(target.paths, ["/x"])
    })
  )
})

describe("addresses that the user typed", () => {
  it.live("are read as they are; others of their host are not", () =>
    Effect.gen(function* () {
      const target = yield* server()
      const typed = [`Read ${target.url}/doc, please (and ${target.url}/list?a=1#part).`]
      const read = (path: string) => ({ name: "web_extract", params: { urls: [`${target.url}${path}`] } })
      yield* run(["/doc", "/list?a=1", "/doc?d=secret", "/list?a=2", "/doc/x", "/"].map(read), { typed })
      assert.deepStrictEqual(target.paths, ["/doc", "/list?a=1"])
    })
  )

  it.live("count in the program as the user's message has them, and nowhere else", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const target = yield* server()
        const { hermes, keep, put } = yield* machine
        keep("config.yaml", "security: { allow_private_urls: true }\n")
        put(
          "turns.yaml",
          JSON.stringify({
            turns: [
              ...["/doc", "/other"].map((path) => ({
                tool_calls: [{ name: "web_extract", arguments: { urls: [`${target.url}${path}`] } }]
              })),
              { text: `see ${target.url}/other` },
              { tool_calls: [{ name: "web_extract", arguments: { urls: [`${target.url}/other`] } }] },
              { text: "that was all" }
            ]
          })
        )
        const { stdout } = yield* hermes([
          "-q",
          `read ${target.url}/doc`,
          "--script",
          "turns.yaml",
          "--format",
          "stream-json"
        ])
        assert.deepStrictEqual(target.paths, ["/doc"])
        assert.include(stdout, `to allow it, add web(${target.host}) to permissions.allow`)
        keep("config.yaml", `security: { allow_private_urls: true }\npermissions: { allow: ["web(${target.host})"] }\n`)
        yield* hermes(["-q", "go", "--script", "turns.yaml"])
        assert.deepStrictEqual(target.paths, ["/doc", "/doc", "/other"])
      })
    )
  )

  it("are found in prose, without its punctuation", () => {
    const found = (text: string) => [...new Set(EgressGate.findAddresses(text))]
    assert.include(found("see <https://a.example/x>."), "https://a.example/x")
    assert.include(found("(https://a.example/x)"), "https://a.example/x")
    assert.include(found("**https://a.example**"), "https://a.example/")
    assert.include(found("https://a.example/x_(y)"), "https://a.example/x_(y)")
    assert.isEmpty(found("a.example/x and file:///etc/passwd"))
  })
})

describe("an address that carries a secret", () => {
  const held = "Zq8-vN3x_Lw5Rt0PbM7kYd2C"
  const known = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
  const hex = (text: string): string => Buffer.from(text).toString("hex")
  const base64 = (text: string): string => Buffer.from(text).toString("base64url")
  const percent = (text: string): string => Array.from(Buffer.from(text), (byte) => `%${byte.toString(16)}`).join("")
  const half = (text: string): readonly [string, string] => [text.slice(0, 12), text.slice(12)]

  const forms = (secret: string): ReadonlyArray<string> => [
    `https://a.example/?q=${secret}`,
    `https://a.example/${secret}/x`,
    `https://${secret}.a.example/`,
    `https://a.example/?q=${percent(secret)}`,
    `https://a.example/?q=${encodeURIComponent(percent(secret))}`,
    `https://a.example/?q=${percent(secret.slice(0, 5))}${secret.slice(5)}`,
    `https://a.example/?q=${base64(`key is ${secret}`)}`,
    `https://a.example/${base64(secret)}.png`,
    `https://a.example/?q=${hex(secret)}`,
    `https://a.example/#${secret}`
  ]

  it("is refused in whatever form, and others are not", () => {
    const registry = Secrets.make()
    registry.add(held)
    const blocked = (text: string) =>
      Effect.runSync(
        Effect.provideService(
          Effect.sync(() => Urls.read(text, Urls.strict) instanceof Urls.UrlBlocked),
          Secrets.Secrets,
          registry
        )
      )
    for (const address of [...forms(held), ...forms(known)]) assert.isTrue(blocked(address), address)
    const [one, two] = half(held)
    for (const address of [`https://a.example/${one}/${two}`, `https://a.example/?a=${one}&b=${two}`])
      assert.isTrue(blocked(address), address)
    for (const address of [
      "https://a.example/docs/reading/an/ordinary/page.html?page=2&lang=en",
      "https://github.com/owner/name/commit/0123456789abcdef0123456789abcdef01234567",
      "https://a.example/watch?v=dQw4w9WgXcQ&list=PLrAXtmErZgOeiKm4sgNOknGvNjby9efdf",
      "https://a.example/%E4%BD%A0%E5%A5%BD?q=100%25"
    ])
      assert.isFalse(blocked(address), address)
  })

  it.live("is not searched for", () =>
    Effect.gen(function* () {
      const asked: Array<string> = []
      const search = (query: string) =>
        Effect.sync(() => {
          asked.push(query)
          return []
        })
      const searched = (query: string) =>
        Effect.provideService(callTool(WebTools.toolset, "web_search", { query }), WebSearch, { name: "test", search })
      assert.isFalse((yield* searched("herons")).isFailure)
      assert.include((yield* searched(`who has ${base64(known)}`)).text, "the query carries a secret")
      assert.deepStrictEqual(asked, ["herons"])
    })
  )

  it.live("is asked about by no door, and reached by none", () =>
    Effect.gen(function* () {
      const target = yield* server()
      const { approvals, asked } = answering("once")
      const results = yield* run([{ name: "web_extract", params: { urls: [`${target.url}/?q=${percent(known)}`] } }], {
        approvals,
        policy: { hosts: [target.host] }
      })
      assert.deepStrictEqual([asked.length, target.paths.length], [0, 0])
      assert.include(results[0], "it carries a secret")
    })
  )
})
