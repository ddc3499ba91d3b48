// For every pair of sources that can disagree about a route: no server receives a key, or anything else of a route,
// that was not given for it. Everything that goes over the wire is looked at: probes, lists of models, children,
// fallbacks, side tasks.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { isLong } from "./support/effort.ts"
import {
  type Level,
  levels,
  play,
  type Section,
  sent,
  type Server,
  servers,
  type Situation,
  type Source
} from "./support/routeWorld.ts"
import "./support/loopbackOnly.ts"

type Vendor = "ANTHROPIC_API_KEY" | "OPENAI_API_KEY" | "OPENROUTER_API_KEY" | "OLLAMA_API_KEY"
const vendors: ReadonlyArray<Vendor> = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "OLLAMA_API_KEY"]

/** What the official clients take from the environment by themselves: nothing of it may be sent. */
const ambient = {
  ANTHROPIC_AUTH_TOKEN: "planted-ambient-1",
  ANTHROPIC_CUSTOM_HEADERS: "x-planted: planted-ambient-2",
  ANTHROPIC_BASE_URL: "http://127.0.0.1:9",
  OPENAI_ORG_ID: "planted-ambient-3",
  OPENAI_PROJECT_ID: "planted-ambient-4",
  OPENAI_CUSTOM_HEADERS: "x-planted: planted-ambient-5",
  OPENAI_ADMIN_KEY: "planted-ambient-6"
}
Object.assign(process.env, ambient)

/** How a source speaks of a route: what it says at a server of its own, and with a key of its own. */
interface Kind {
  readonly name: string
  readonly model: (at: string, key: string) => Section
  readonly variables?: (at: string, key: string) => Readonly<Record<string, string>>
  /** Whether it names its server, its key, a provider. */
  readonly address: boolean
  readonly key: boolean
  readonly provider?: string
  readonly only?: ReadonlyArray<Level>
}

const kinds: ReadonlyArray<Kind> = [
  {
    name: "whole",
    model: (at, key) => ({ provider: "custom", base_url: at, api_key: key }),
    address: true,
    key: true,
    provider: "custom"
  },
  {
    name: "whole in another protocol",
    model: (at, key) => ({ provider: "custom", base_url: at, api_key: key, api_mode: "anthropic_messages" }),
    address: true,
    key: true,
    provider: "custom"
  },
  {
    name: "without a key",
    model: (at) => ({ provider: "custom", base_url: at }),
    address: true,
    key: false,
    provider: "custom"
  },
  { name: "an address", model: (at) => ({ base_url: at }), address: true, key: false },
  { name: "an address and a key", model: (at, key) => ({ base_url: at, api_key: key }), address: true, key: true },
  { name: "a key", model: (_, key) => ({ api_key: key }), address: false, key: true },
  {
    name: "a vendor elsewhere",
    model: (at, key) => ({ provider: "anthropic", base_url: at, api_key: key }),
    address: true,
    key: true,
    provider: "anthropic"
  },
  {
    name: "a vendor elsewhere without a key",
    model: (at) => ({ provider: "anthropic", base_url: at }),
    address: true,
    key: false,
    provider: "anthropic"
  },
  {
    name: "a vendor and its key",
    model: (_, key) => ({ provider: "openrouter", api_key: key }),
    address: false,
    key: true,
    provider: "openrouter"
  },
  { name: "a vendor", model: () => ({ provider: "anthropic" }), address: false, key: false, provider: "anthropic" },
  { name: "a named endpoint", model: () => ({ provider: "lab" }), address: false, key: false, provider: "lab" },
  {
    name: "custom and a key",
    model: (_, key) => ({ provider: "custom", api_key: key }),
    address: false,
    key: true,
    provider: "custom"
  },
  {
    name: "OPENAI_BASE_URL",
    model: () => ({}),
    variables: (at) => ({ OPENAI_BASE_URL: at }),
    address: true,
    key: false,
    only: ["env-file", "environment"]
  }
]

const names = ["file", "env-file", "environment", "flags", "lab", "second"] as const
type Name = (typeof names)[number]
type World = Record<Name, Server>

const keyOf = (name: string): string => `planted-key-of-${name}`
const vendorKey = (level: Level, variable: Vendor): string => `planted-${variable}-of-${level}`
const queryOf = (name: string): string => `planted-query-of-${name}`
const addressOf = (world: World, name: Name): string => `${world[name].url}/v1?tenant=${queryOf(name)}`

const hasVariables = (level: Level): boolean => level === "env-file" || level === "environment"

const fits =
  (level: Level) =>
  (kind: Kind): boolean =>
    (kind.only?.includes(level) ?? true) && (level !== "flags" || !kind.key)

/** One source of a situation, as it stands and as it is judged. */
interface Saying {
  readonly level: Level
  readonly kind: Kind
}

const sourceOf = (world: World, { kind, level }: Saying): Source => ({
  model: kind.model(addressOf(world, level), keyOf(level)),
  ...(kind.variables === undefined ? {} : { variables: kind.variables(addressOf(world, level), keyOf(level)) })
})

/** Vendors' keys stand in the environment and in `.env` of every situation. */
const withVendors = (level: Level, source: Source = {}): Source =>
  hasVariables(level)
    ? {
        ...source,
        variables: { ...Object.fromEntries(vendors.map((name) => [name, vendorKey(level, name)])), ...source.variables }
      }
    : source

/** Secret → servers that it was given for. */
type Grants = ReadonlyMap<string, ReadonlyArray<Name>>

/** The provider that some sources name together; an address without one is `custom`'s. */
const providerOf = (sayings: ReadonlyArray<Saying>): string | undefined =>
  sayings.findLast(({ kind }) => kind.provider !== undefined)?.kind.provider ??
  (sayings.some(({ kind }) => kind.address) ? "custom" : undefined)

/**
 * The servers that a key without an address is for: that of the route below it, as long as nothing above names another
 * one.
 */
const routeBelow = (sayings: ReadonlyArray<Saying>, index: number): ReadonlyArray<Name> => {
  const below = sayings.slice(0, index)
  const own = sayings[index]?.kind.provider
  const provider = providerOf(below)
  const isElsewhere = sayings
    .slice(index + 1)
    .some(({ kind }) => kind.address || (kind.provider !== undefined && kind.provider !== provider))
  if (isElsewhere || (own !== undefined && own !== provider)) return []
  const addressed = below.findLast(({ kind }) => kind.address)
  return [...(addressed === undefined ? [] : [addressed.level]), ...(provider === "lab" ? (["lab"] as const) : [])]
}

/** `OPENAI_BASE_URL` says nothing beside a provider that does not speak OpenAI's protocol. */
const counting = (sayings: ReadonlyArray<Saying>): ReadonlyArray<Saying> => {
  const provider = sayings.findLast(({ kind }) => kind.provider !== undefined)?.kind.provider
  return provider === undefined || provider === "custom"
    ? sayings
    : sayings.filter(({ kind }) => kind.name !== "OPENAI_BASE_URL")
}

/** The servers of the main model's secrets, from the rule alone: sayings stand weakest first. */
const grantsOf = (all: ReadonlyArray<Saying>): Grants => {
  const sayings = counting(all)
  const grants = new Map<string, ReadonlyArray<Name>>([[keyOf("lab"), ["lab"]]])
  for (const name of names) grants.set(queryOf(name), [name])
  for (const [index, { kind, level }] of sayings.entries()) {
    if (kind.key) grants.set(keyOf(level), kind.address ? [level] : routeBelow(sayings, index))
    if (!hasVariables(level) || !kind.address) continue
    // The same source names the provider, its address, and has its variable.
    if (kind.provider === "anthropic") grants.set(vendorKey(level, "ANTHROPIC_API_KEY"), [level])
  }
  // The pair of OpenAI's variables names a custom endpoint, for side tasks too.
  for (const { kind, level } of all)
    if (kind.name === "OPENAI_BASE_URL") grants.set(vendorKey(level, "OPENAI_API_KEY"), [level])
  return grants
}

const secrets: ReadonlyArray<string> = [
  ...names.flatMap((name) => [keyOf(name), queryOf(name)]),
  ...levels.flatMap((level) => vendors.map((name) => vendorKey(level, name))),
  ...Object.values(ambient)
    .filter((value) => value.includes("planted"))
    .map((value) => value.slice(value.indexOf("planted-ambient")))
]

/** What went where it was not given for; nothing if all is right. */
const leaks = (world: World, grants: Grants): ReadonlyArray<string> =>
  names.flatMap((name) => {
    const text = sent(world[name])
    return secrets
      .filter((secret) => text.includes(secret) && !(grants.get(secret) ?? []).includes(name))
      .map((secret) => `${name} received ${secret}`)
  })

const lab = (world: World) => ({
  custom_providers: [{ name: "lab", base_url: addressOf(world, "lab"), api_key: keyOf("lab") }]
})

const describeSayings = (sayings: ReadonlyArray<Saying>): string =>
  sayings.map(({ kind, level }) => `${level}: ${kind.name}`).join(", ")

const withModel = (source: Source): Source => ({ ...source, model: { default: "m", ...source.model } })

const situationOf = (world: World, sayings: ReadonlyArray<Saying>, more: Partial<Situation> = {}): Situation => {
  const said = new Map(sayings.map((saying) => [saying.level, sourceOf(world, saying)]))
  return {
    act: "run",
    file: lab(world),
    ...more,
    sources: {
      file: withModel(said.get("file") ?? {}),
      "env-file": withVendors("env-file", said.get("env-file")),
      environment: withVendors("environment", said.get("environment")),
      flags: said.get("flags") ?? {}
    }
  }
}

/** Every how many-th situation is played: all of them by `npm run test:routes`. */
const stride = Number(process.env["HERMES_TEST_ROUTES"] ?? (isLong ? 25 : 60))
/** A seed that no run had before, for long runs. */
const fresh = isLong || stride === 1 ? [Date.now() % 1_000_000] : []

/** Plays situations with servers of their own, a few at once; the findings of all of them. */
const findings = <A>(all: ReadonlyArray<A>, look: (one: A) => Effect.Effect<ReadonlyArray<string>>) =>
  Effect.map(
    Effect.forEach(
      all.filter((_, index) => index % stride === 0),
      look,
      { concurrency: 4 }
    ),
    (found) => found.flat()
  )

const pairs = levels.flatMap((weaker, index) => levels.slice(index + 1).map((stronger) => [weaker, stronger] as const))

/** A generator of numbers below a bound; the same seed gives the same ones. */
const random = (seed: number) => {
  let state = seed
  return (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 4_294_967_296) * below)
  }
}

/** A source that names a whole route of its own is answered by it, whatever stands below. */
const unanswered = (sayings: ReadonlyArray<Saying>, answer: string): ReadonlyArray<string> => {
  const last = sayings.at(-1)
  const isOwn = last?.kind.provider === "custom" && last.kind.address
  return isOwn && answer !== `from ${last.level}` ? [`answered: ${answer}`] : []
}

/** A chain of sources and what came of it. */
const played = (sayings: ReadonlyArray<Saying>, more: Partial<Situation> = {}) =>
  Effect.scoped(
    Effect.gen(function* () {
      const world = yield* servers(names)
      const answer = yield* play(situationOf(world, sayings, more))
      const last = sayings.at(-1)
      const problems = [...leaks(world, grantsOf(sayings)), ...unanswered(sayings, answer)]
      if (last?.kind.name.startsWith("whole") === true) {
        if (!sent(world[last.level]).includes(keyOf(last.level)))
          problems.push(`${last.level} did not receive its own key`)
        const others = names.filter((name) => name !== last.level && world[name].requests.length > 0)
        if (others.length > 0) problems.push(`asked besides: ${others.join(", ")}`)
      }
      return problems.map((problem) => `${describeSayings(sayings)}: ${problem}`)
    })
  )

describe("a secret goes only where its source gave it", () => {
  for (const [weaker, stronger] of pairs) {
    it.live(`${weaker} under ${stronger}, each in every way to speak of a route`, () =>
      Effect.gen(function* () {
        const all = kinds.filter(fits(weaker)).flatMap((low) =>
          kinds.filter(fits(stronger)).map((high): ReadonlyArray<Saying> => [
            { level: weaker, kind: low },
            { level: stronger, kind: high }
          ])
        )
        assert.deepStrictEqual(yield* findings(all, played), [])
      })
    )
  }

  for (const seed of [1, ...fresh]) {
    it.live(`all four sources at once, seed ${seed}`, () =>
      Effect.gen(function* () {
        const next = random(seed)
        const all = Array.from({ length: 60 }, (): ReadonlyArray<Saying> =>
          levels.flatMap((level) => {
            const fitting = kinds.filter(fits(level))
            const kind = fitting[next(fitting.length)]
            return kind === undefined || next(5) === 0 ? [] : [{ level, kind }]
          })
        )
        assert.deepStrictEqual(yield* findings(all, played), [])
      })
    )
  }

  it.live("`model set` over the file, which is read again without flags", () =>
    Effect.gen(function* () {
      const all = kinds.filter(fits("file")).flatMap((low) =>
        kinds.filter(fits("flags")).map((high): ReadonlyArray<Saying> => [
          { level: "file", kind: low },
          { level: "flags", kind: high }
        ])
      )
      const found = yield* findings(all, (sayings) =>
        Effect.scoped(
          Effect.gen(function* () {
            const world = yield* servers(names)
            const [low, high] = sayings
            if (low === undefined || high === undefined) return []
            const modelSet = high.kind.model(addressOf(world, "flags"), keyOf("flags"))
            const answer = yield* play(situationOf(world, [low], { modelSet }))
            const problems = [...leaks(world, grantsOf(sayings)), ...unanswered(sayings, answer)]
            return problems.map((problem) => `${describeSayings(sayings)}: ${problem}`)
          })
        )
      )
      assert.deepStrictEqual(found, [])
    })
  )

  const mains = kinds.filter(({ name }) =>
    ["whole", "whole in another protocol", "an address and a key", "a vendor elsewhere", "a named endpoint"].includes(
      name
    )
  )
  const sections = [
    { section: "delegation", act: "delegate" },
    { section: "fallback", act: "run" },
    { section: "auxiliary", act: "side task" }
  ] as const
  const environments = [[], ["OPENAI_BASE_URL"], ["an address"]] as const
  for (const { act, section } of sections) {
    for (const level of ["file", "environment"] as const) {
      it.live(`${section} of ${level === "file" ? "the file" : "the environment"} beside the main model`, () =>
        Effect.gen(function* () {
          const all = mains.flatMap((main) =>
            kinds.filter(fits("file")).flatMap((own) => environments.map((above) => ({ main, own, above })))
          )
          let asked = 0
          const found = yield* findings(all, ({ above, main, own }) =>
            Effect.scoped(
              Effect.gen(function* () {
                const higher = kinds
                  .filter(({ name }) => above.some((one) => one === name))
                  .map((kind): Saying => ({ level: "environment", kind }))
                const sayings: ReadonlyArray<Saying> = [{ level: "file", kind: main }, ...higher]
                const world = yield* servers(
                  names,
                  new Set(section === "fallback" ? ["file", "environment", "lab"] : [])
                )
                const base = situationOf(world, sayings, { act })
                const said = { model: "m2", ...own.model(addressOf(world, "second"), keyOf("second")) }
                yield* play({
                  ...base,
                  sources: { ...base.sources, [level]: { ...base.sources[level], [section]: said } }
                })
                // The key of the section is for its own server; alone, a child's is for the route of its parent.
                const child: Saying = { level: "flags", kind: own }
                const parents =
                  section === "delegation" ? routeBelow([...counting(sayings), child], counting(sayings).length) : []
                const grants = new Map([
                  ...grantsOf(sayings),
                  [keyOf("second"), own.address ? (["second"] as const) : parents]
                ])
                if (level === "environment" && own.address && own.provider === "anthropic")
                  grants.set(vendorKey("environment", "ANTHROPIC_API_KEY"), ["second"])
                if (world.second.requests.length > 0) asked++
                const problems = [...leaks(world, grants)]
                // Without a key for its address the main model does not run, and nothing beside it.
                const isLame = main.provider === "anthropic" && above.some((one) => one === "an address")
                if (own.name.startsWith("whole") && !isLame && !sent(world.second).includes(keyOf("second")))
                  problems.push("its own server did not receive its key")
                return problems.map((problem) => `${describeSayings(sayings)}, ${section}: ${own.name}: ${problem}`)
              })
            )
          )
          assert.deepStrictEqual(found, [])
          assert.isAbove(asked, (mains.length * environments.length) / stride)
        })
      )
    }
  }
})

describe("a child's route is one value", () => {
  const posts = (server: Server): ReadonlyArray<string> =>
    [
      ...new Set(
        server.requests.filter(({ method }) => method === "POST").map(({ url }) => new URL(url, "http://x").pathname)
      )
    ].filter((path) => path !== "/api/show")

  it.live(
    "on the address of its parent it speaks the parent's protocol, as the section is printed in the Relay document",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const { file } = yield* servers(["file"])
          const main = {
            provider: "custom",
            default: "large",
            base_url: file.url,
            api_key: "ollama",
            api_mode: "anthropic_messages"
          }
          const delegation = {
            max_spawn_depth: 2,
            max_concurrent_children: 2,
            child_timeout_seconds: 180,
            model: "small",
            provider: "custom",
            base_url: file.url,
            api_key: "ollama"
          }
          const answer = yield* play({ act: "delegate", sources: { file: { model: main, delegation } } })
          assert.strictEqual(answer, "from file")
          assert.deepStrictEqual(posts(file), ["/v1/messages"])
          assert.deepStrictEqual(
            [
              ...new Set(
                file.requests.filter(({ url }) => url.endsWith("/messages")).map(({ body }) => JSON.parse(body).model)
              )
            ],
            ["large", "small"]
          )
        })
      )
  )

  it.live("elsewhere it speaks its own, which delegation.api_mode names", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { file, second } = yield* servers(["file", "second"])
        const main = {
          provider: "custom",
          default: "m",
          base_url: file.url,
          api_key: "k",
          api_mode: "anthropic_messages"
        }
        const child = (more: Section) =>
          play({
            act: "delegate",
            sources: { file: { model: main, delegation: { base_url: `${second.url}/v1`, ...more } } }
          })
        assert.strictEqual(yield* child({}), "from file")
        assert.deepStrictEqual(posts(second), ["/v1/chat/completions"])
        assert.strictEqual(yield* child({ base_url: second.url, api_mode: "anthropic_messages" }), "from file")
        assert.deepStrictEqual(posts(second), ["/v1/chat/completions", "/v1/messages"])
        assert.deepStrictEqual(posts(file), ["/v1/messages"])
      })
    )
  )
})
