// Model servers on the loopback that record every request, and runs of the whole program runtime under settings of
// several sources. Each source has a server and secrets of its own: a secret may be found only where its source gave
// it.
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import type { Scope } from "effect/Scope"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Agent from "../../src/agent/Agent.ts"
import * as Config from "../../src/base/config/Config.ts"
import * as Edit from "../../src/base/config/Edit.ts"
import { Environment, Home, make as makeEnvironment } from "../../src/base/config/Environment.ts"
import { SessionId, TaskId, TurnId } from "../../src/base/domain/Ids.ts"
import * as Prompt from "effect/ai/Prompt"
import { Auxiliary } from "../../src/models/routing/Auxiliary.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as HttpServer from "../models/provider/HttpServer.ts"
import { withoutSandbox } from "./hermes.ts"
import { temporaryDirectory } from "./temporaryDirectory.ts"
import { protocols } from "./wireModel.ts"

/** A source of settings, weakest first. */
export const levels = ["file", "env-file", "environment", "flags"] as const
export type Level = (typeof levels)[number]

/** What a source says of one section of routes, in the keys of the file. */
export type Section = Readonly<Record<string, string | number>>

/** What one source says: sections, and variables of its own beside them. */
export interface Source {
  readonly model?: Section
  readonly delegation?: Section
  readonly auxiliary?: Section
  readonly fallback?: Section
  readonly variables?: Readonly<Record<string, string>>
}

/** The prompt at which the model delegates, and what the child is told. */
export const parentPrompt = "PARENT-PROMPT"

export interface Server extends HttpServer.HttpServer {
  readonly name: string
}

/** A model that answers in the protocol that it is asked in; one that fails has no money. */
const server = (name: string, failing: ReadonlySet<string>): Effect.Effect<Server, never, Scope> =>
  Effect.map(
    HttpServer.make(({ body, method, url }, response) => {
      const { pathname } = new URL(url, "http://x")
      const protocol = pathname.endsWith("/messages")
        ? protocols.anthropic_messages
        : pathname.endsWith("/chat/completions")
          ? protocols.chat_completions
          : pathname.endsWith("/responses")
            ? protocols.codex_responses
            : undefined
      if (method !== "POST" || protocol === undefined) return HttpServer.json(response, 404, {})
      if (failing.has(name)) return HttpServer.json(response, 402, { error: { message: "insufficient credits" } })
      const isParent =
        body.includes(parentPrompt) && !/"(role":"tool|type":"tool_result|type":"function_call_output)"/.test(body)
      const turn =
        isParent && body.includes("delegate_task")
          ? { calls: [{ id: "call_1", name: "delegate_task", args: JSON.stringify({ goal: "child goal" }) }] }
          : { text: `from ${name}` }
      if (JSON.parse(body).stream === true) protocol.stream(turn, response)
      else HttpServer.json(response, 200, protocol.whole(turn))
    }),
    (made) => ({ ...made, name })
  )

/** Servers by name. */
export const servers = <const N extends string>(names: ReadonlyArray<N>, failing: ReadonlySet<string> = new Set()) =>
  Effect.map(
    Effect.forEach(names, (name) => server(name, failing)),
    (made) =>
      // Every name has its server.
      Object.fromEntries(made.map((one) => [one.name, one])) as Record<N, Server>
  )

const variablesOf = (section: string, values: Section = {}): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(values).map(([key, value]) => [`HERMES_${section}__${key.toUpperCase()}`, String(value)])
  )

const asVariables = ({ auxiliary, delegation, fallback, model, variables }: Source = {}): Readonly<
  Record<string, string>
> => ({
  ...variablesOf("MODEL", model),
  ...variablesOf("DELEGATION", delegation),
  ...variablesOf("AUXILIARY__TITLE", auxiliary),
  ...variablesOf("FALLBACK_MODEL", fallback),
  ...variables
})

const asFile = ({ auxiliary, delegation, fallback, model }: Source = {}, more: object = {}): object => ({
  agent: { api_max_retries: 1, max_turns: 4 },
  ...more,
  ...(model === undefined ? {} : { model }),
  ...(delegation === undefined ? {} : { delegation }),
  ...(fallback === undefined ? {} : { fallback_model: fallback }),
  ...(auxiliary === undefined ? {} : { auxiliary: { title: auxiliary } })
})

/** Two levels as lines that `model set` can change, what is below them as JSON, which is YAML. */
const asYaml = (file: object): string =>
  Object.entries(file)
    .map(([key, value]) =>
      Array.isArray(value)
        ? `${key}: ${JSON.stringify(value)}\n`
        : `${key}:\n${Object.entries(value)
            .map(([name, item]) => `  ${name}: ${JSON.stringify(item)}\n`)
            .join("")}`
    )
    .join("")

const asFlags = ({ model = {} }: Source = {}): ReadonlyArray<Config.Flag> =>
  Object.entries(model).map(([key, value]) => ({ name: `--${key.replaceAll("_", "-")}`, key: `model.${key}`, value }))

/** A situation: what each source says, and what is done. */
export interface Situation {
  readonly sources: { readonly [L in Level]?: Source }
  /** More of the file, such as named endpoints. */
  readonly file?: object
  /** Flags of `model set`, which are gone when the run begins. */
  readonly modelSet?: Section
  readonly act: "run" | "delegate" | "side task"
}

/** Runs a situation to its end; a failure of the run is its message. */
export const play = ({ act, file, modelSet, sources }: Situation): Effect.Effect<string> =>
  Effect.gen(function* () {
    const root = yield* temporaryDirectory
    const home = join(root, "home")
    mkdirSync(home)
    writeFileSync(join(home, "config.yaml"), asYaml(asFile(sources.file, file)))
    const place = Home.layerAt(home).pipe(Layer.provideMerge(NodeServices.layer))
    if (modelSet !== undefined) {
      const { base_url, default: model = "m", provider } = modelSet
      const text = (value: string | number | undefined) => (value === undefined ? undefined : String(value))
      yield* Effect.provide(
        Edit.setModel({
          default: String(model),
          provider: text(provider),
          base_url: text(base_url),
          api_mode: undefined
        }),
        place
      )
    }
    const environment = makeEnvironment(
      { ...withoutSandbox, ...asVariables(sources.environment) },
      asVariables(sources["env-file"])
    )
    const given = Layer.merge(place, Layer.succeed(Environment, environment))
    return yield* Effect.gen(function* () {
      const { settings } = yield* Config.load({ flags: asFlags(sources.flags) })
      const context = { sessionId: SessionId.make("s"), taskId: TaskId.make("s"), turnId: TurnId.make("t") }
      const messages = [Prompt.userMessage({ content: [Prompt.textPart({ text: "a title" })] })]
      const work: Effect.Effect<string, unknown, Agent.Agent | Auxiliary> =
        act === "side task"
          ? Effect.map(
              Auxiliary.use(({ call }) => call("title", { messages, context })),
              ({ text }) => text
            )
          : Effect.map(
              Agent.run({
                prompt: act === "delegate" ? parentPrompt : "hello",
                tools: { toolset: (name) => name === "delegation" },
                cwd: root
              }),
              ({ text }) => text
            )
      return yield* Effect.provide(work, Runtime.program(settings))
    }).pipe(Effect.provide(given))
  }).pipe(
    Effect.scoped,
    Effect.exit,
    Effect.map((exit) => (Exit.isSuccess(exit) ? exit.value : `failed: ${String(Cause.squash(exit.cause))}`))
  )

/** All that a server was sent, as text: method, address, headers and body. */
export const sent = ({ requests }: Server): string =>
  requests.map(({ body, headers, method, url }) => JSON.stringify([method, url, headers, body])).join("\n")
