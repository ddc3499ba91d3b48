/**
 * `hermes serve`: serves the agent over HTTP until Ctrl+C, to clients that use OpenAI's APIs, MCP, or the program's
 * session API. With `--rollouts` it serves chat completions for training instead, and stores the answers as episodes.
 *
 * Source: `hermes-product.md` §2.2 and §5.5.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Redacted from "effect/Redacted"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Environments from "../../base/config/Environment.ts"
import * as PermissionMode from "../../base/config/PermissionMode.ts"
import { Settings } from "../../base/config/Settings.ts"
import { getWorkingDirectory } from "../../base/platform/CurrentProcess.ts"
import { ModelRouter } from "../../models/routing/ModelRouter.ts"
import * as ServerGuard from "../../serve/server/ServerGuard.ts"
import * as ServerKeys from "../../serve/server/ServerKeys.ts"
import * as CommandSettings from "./CommandSettings.ts"
import { joinAlternatives, EndSignal, type Failure, makeWorkFailure, makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { hermes } from "./Hermes.ts"
import * as ModelChoices from "./ModelChoices.ts"
import { printLine, printNote, Output } from "./ProgramOutput.ts"
import { Program } from "./Program.ts"
import * as RunOptions from "./RunOptions.ts"

/** Kinds of token data that are requested from the model. With `auto`, the kind depends on the address of the model. */
const captures = ["auto", "token_ids", "logprobs", "none"] as const
const divergences = ["refuse", "branch"] as const

const flags = {
  host: Flags.makeText("host", "ADDRESS", "Address; default: 127.0.0.1 (other addresses need a key)"),
  port: Flags.takeLast(Flag.Int("port").pipe(Flag.withMetavar("N")), "Port; default: 8642 (0: any free port)"),
  maxSessions: Flags.takeLast(
    Flag.Int("max-sessions").pipe(Flag.withMetavar("N")),
    "Sessions open at once; default: 512"
  ),
  questions: Flags.makeText("questions", "DO", "Calls that need an approval: suspend the run, or deny (default)"),
  rollouts: Flags.makeText("rollouts", "DIR", "Serve rollouts for training from this directory"),
  capture: Flags.makeText("capture", "KIND", `Rollouts: requested tokens: ${captures.join(", ")}`),
  parser: Flags.makeText("parser", "NAME", "Rollouts: parser of tool calls in raw text (such as qwen)"),
  weightsVersion: Flags.makeText("weights-version", "TEXT", "Rollouts: version of the weights, stored with each"),
  onDivergence: Flags.makeText("on-divergence", "DO", "Rollouts: if the history differs, refuse (default) or branch"),
  allowHost: Flags.makeTexts("allow-host", "NAME", "Name that clients may use; repeatable"),
  allowOrigin: Flags.makeTexts("allow-origin", "ORIGIN", "Origin of web pages that may call the API; repeatable"),
  script: Flags.makeText("script", "PATH", "Answer from a scenario file instead of a model")
}

const parseChoice = <A extends string>(
  flag: string,
  value: string | undefined,
  known: ReadonlyArray<A>
): Effect.Effect<A | undefined, Failure> => {
  const found = known.find((one) => one === value)
  return value === undefined || found !== undefined
    ? Effect.succeed(found)
    : Effect.fail(makeUsageFailure(`--${flag} is ${joinAlternatives(known)}, not "${value}"`))
}

const defaultPort = 8642

type KeyServices = Environments.Environment | Environments.Home | FileSystem.FileSystem | Path.Path

/** The owner's key and the path of its file. The path is `undefined` if the key comes from the environment. */
interface OwnerKey {
  readonly key: Redacted.Redacted<string>
  readonly path: string | undefined
  readonly isNew: boolean
}

/**
 * Reads the owner's key from the environment, or else from the home directory. The key is created there at the first
 * start.
 */
const readOwnerKey = Effect.fnUntraced(function* (
  host: string | undefined,
  named: ReadonlyArray<ServerKeys.NamedKey>
): Effect.fn.Return<OwnerKey, Failure, KeyServices> {
  const given = (yield* Environments.Environment).get("HERMES_SERVER_KEY")
  if (given !== undefined && given !== "") {
    return given.length < ServerKeys.shortestKey
      ? yield* makeUsageFailure(
          `HERMES_SERVER_KEY has fewer than ${ServerKeys.shortestKey} characters: use a long random text`
        )
      : { key: Redacted.make(given), path: undefined, isNew: false }
  }
  // Clients on other machines cannot read a key that is stored only on this machine.
  const refusal = ServerGuard.explainRefusal({ host: host ?? "127.0.0.1", key: undefined }, named)
  if (refusal !== undefined) return yield* makeUsageFailure(refusal)
  const home = yield* Environments.Home
  const { provideKey } = yield* Effect.promise(() => import("../../serve/server/OwnerKey.ts"))
  return yield* Effect.mapError(Effect.andThen(home.ensure, provideKey(home.root)), ({ message }) =>
    makeUsageFailure(message)
  )
})

/**
 * Prints where the key is stored. A new key is printed once, and only on a terminal, because other outputs may be
 * stored.
 */
const reportKey = Effect.fnUntraced(function* ({ isNew, key, path }: OwnerKey) {
  if (path === undefined) return yield* printNote("Clients send HERMES_SERVER_KEY as Authorization: Bearer.")
  const { err, streams } = yield* Output
  if (isNew && streams.aside.terminal) yield* err(`Key of this server, shown only once: ${Redacted.value(key)}\n`)
  yield* printNote(`Clients send the key in ${path} as Authorization: Bearer.`)
})

/**
 * Reads the keys of additional clients. An entry without a key name, or with a key that does not exist, is an error.
 */
const namedKeys = Effect.gen(function* () {
  const {
    server: { keys },
    tenants
  } = yield* Settings
  const environment = yield* Environments.Environment
  return yield* Effect.forEach(Object.entries(keys), ([name, { key, keyEnv, keyFile, ...bounds }]) =>
    Effect.gen(function* () {
      const place = `server.keys.${name}`
      const { tenant } = bounds
      if (tenant !== undefined && !Object.hasOwn(tenants, tenant))
        return yield* makeUsageFailure(
          `${place}.tenant: there is no tenant "${tenant}": add it to tenants, with its limits`
        )
      const isOne = [key, keyEnv, keyFile].filter((one) => one !== undefined).length === 1
      if (!isOne) return yield* makeUsageFailure(`${place} needs exactly one of key, key_env and key_file`)
      if (key !== undefined) return { name, key, ...bounds }
      const read =
        keyEnv === undefined
          ? Environments.readText(keyFile ?? "")
          : Effect.succeed(Option.fromUndefinedOr(environment.get(keyEnv)))
      const text = yield* Effect.mapError(read, ({ message }) => makeUsageFailure(`${place}: ${message}`))
      const found = Option.getOrElse(text, () => "").trim()
      const problem =
        keyEnv === undefined
          ? `${keyFile} is missing or empty: write the key into it`
          : `the variable ${keyEnv} is not set: set it to the key`
      return found === ""
        ? yield* makeUsageFailure(`${place}: ${problem}`)
        : { name, key: Redacted.make(found), ...bounds }
    })
  )
})

const asked = {
  auto: "token ids where its server returns them",
  token_ids: "token ids",
  logprobs: "log probabilities only",
  none: "no tokens"
} as const

type ServeFlags = Flags.Parsed<typeof flags>

const toListenFailure =
  (port: number) =>
  (reason: string): Failure =>
    reason.startsWith("listening on")
      ? makeUsageFailure(reason)
      : makeWorkFailure(`cannot listen on port ${port} (${reason}): choose another --port, or 0 for any`)

/** Serves the agent with the configured settings. */
const serveAgent = Effect.fnUntraced(function* ({
  allowHost,
  allowOrigin,
  host,
  maxSessions,
  port = defaultPort,
  questions,
  script
}: ServeFlags) {
  const unanswered = yield* parseChoice("questions", questions, ["suspend", "deny"])
  const [AgentServer, McpServe, settings, program, keys, shared] = yield* Effect.all([
    Effect.promise(() => import("../../serve/server/agent/AgentServer.ts")),
    Effect.promise(() => import("./McpServe.ts")),
    Settings,
    Program,
    namedKeys,
    hermes
  ])
  const own = yield* readOwnerKey(host, keys)
  const { key } = own
  const refusal = ServerKeys.explainRefusal(key, keys)
  if (refusal !== undefined) return yield* makeUsageFailure(refusal)
  yield* (yield* Output).protect
  const ended = yield* EndSignal
  yield* Effect.gen(function* () {
    const named = settings.platformToolsets["api-server"] ?? settings.toolsets
    const isOwn = named.length === 1 && named[0] === "hermes-cli" && shared.toolsets === undefined
    const platformToolsets = { ...settings.platformToolsets, cli: isOwn ? ["hermes-api-server"] : named }
    const tools = yield* RunOptions.selectTools(shared, { ...settings, platformToolsets })
    if (Object.keys(settings.tenants).length > 0)
      yield* Effect.flatMap(
        Effect.promise(() => import("./TenantChecks.ts")),
        ({ warnAboutTenants }) => warnAboutTenants(settings)
      )
    const choices = yield* ModelChoices.make
    const ask = yield* McpServe.makeClientAskTool(tools)
    const { url } = yield* Effect.mapError(
      AgentServer.serve({
        host,
        port,
        key,
        keys,
        allowedHosts: allowHost,
        allowedOrigins: allowOrigin,
        cwd: getWorkingDirectory(),
        tools,
        mode: PermissionMode.fromSettings(settings.approvals),
        maxIterations: settings.agent.maxTurns,
        maxSessions,
        questions: unanswered === undefined ? undefined : { unanswered },
        models: Effect.map(choices.list, (list) =>
          list.map(({ model, provider, route }) => ({ id: `${provider}/${model}`, route }))
        ),
        mcpTools: (client) => [ask(client)]
      }),
      toListenFailure(port)
    )
    yield* printLine(`Serving the agent at ${url}/v1`)
    yield* reportKey(own)
    yield* printNote(
      `Tools work in ${getWorkingDirectory()}. Approvals: ` +
        (unanswered === "suspend"
          ? "they suspend the run until POST /v1/sessions/ID/answers."
          : "POST /v1/sessions/ID/questions/QUESTION; they are denied if no client reads the session's events.")
    )
    yield* printNote(`API: ${url}/openapi.json · MCP: ${url}/mcp · metrics: ${url}/metrics (press Ctrl+C to stop)`)
    yield* ended
    yield* printNote("Stopping: pending requests have 10 seconds to finish.")
  }).pipe(Effect.scoped, Effect.provide(program.layer(settings, { script })))
})

const startServer = Effect.fn("hermes serve")(
  function* (given: ServeFlags) {
    const { host, parser, port = defaultPort, script } = given
    const capture = (yield* parseChoice("capture", given.capture, captures)) ?? "auto"
    const onDivergence = yield* parseChoice("on-divergence", given.onDivergence, divergences)
    if (port < 0 || port > 65_535)
      return yield* makeUsageFailure(`--port "${port}" is invalid: expected a number from 0 to 65535`)
    const ofRollouts = Object.entries({
      capture: given.capture,
      parser,
      "weights-version": given.weightsVersion,
      "on-divergence": onDivergence
    }).find(([, value]) => value !== undefined)
    if (given.rollouts === undefined) {
      return ofRollouts === undefined
        ? yield* serveAgent(given)
        : yield* makeUsageFailure(`--${ofRollouts[0]} needs --rollouts DIR`)
    }
    const [modules, paths, settings, program] = yield* Effect.all([
      Effect.promise(() =>
        Promise.all([
          import("../../research/rollout/EpisodeStore.ts"),
          import("../../research/rollout/Episodes.ts"),
          import("../../serve/server/HermesServer.ts"),
          import("../../research/rollout/RolloutModel.ts"),
          import("../../research/rollout/ToolCallParser.ts")
        ])
      ),
      Path.Path,
      Settings,
      Program
    ])
    const [EpisodeStore, Episodes, HermesServer, RolloutModel, ToolCallParser] = modules
    if (parser !== undefined && ToolCallParser.find(parser) === undefined) {
      return yield* makeUsageFailure(
        `unknown tool-call parser "${parser}": pass one of ${ToolCallParser.names.join(", ")}`
      )
    }
    const own = yield* readOwnerKey(host, [])
    yield* (yield* Output).protect
    const directory = paths.resolve(given.rollouts)
    const fs = yield* FileSystem.FileSystem
    yield* Effect.mapError(fs.makeDirectory(directory, { recursive: true, mode: 0o700 }), (error) =>
      makeUsageFailure(`--rollouts ${directory} cannot be created: ${error.message}`)
    )
    const ended = yield* EndSignal
    const rollouts = RolloutModel.layer({
      dialect: capture === "auto" ? undefined : capture,
      defaults: {
        ...(onDivergence === undefined ? {} : { on_divergence: onDivergence }),
        ...(parser === undefined ? {} : { tool_call_parser: parser }),
        ...(given.weightsVersion === undefined ? {} : { weights_version: given.weightsVersion })
      }
    }).pipe(Layer.provide(Episodes.layer), Layer.provide(EpisodeStore.layerDirectory(directory)))
    yield* Effect.gen(function* () {
      const { model } = yield* Effect.flatMap(ModelRouter, ({ primary }) => primary)
      const { url } = yield* Effect.mapError(
        HermesServer.serve({
          host,
          port,
          key: own.key,
          allowedHosts: given.allowHost,
          allowedOrigins: given.allowOrigin
        }),
        toListenFailure(port)
      )
      yield* printLine(`Serving rollouts of ${model} at ${url}/v1`)
      yield* reportKey(own)
      yield* printLine(`Episodes: ${directory}`)
      yield* printNote(`Asked for: ${asked[capture]}.`)
      yield* printNote(`API: ${url}/openapi.json (press Ctrl+C to stop)`)
      yield* ended
      yield* printNote("Stopping: pending requests have 10 seconds to finish.")
    }).pipe(Effect.scoped, Effect.provide(rollouts), Effect.provide(program.layer(settings, { script })))
  },
  Effect.scoped,
  CommandSettings.provide
)

/** `hermes serve`: serves the agent over HTTP. */
export const command = Command.make("serve", flags, startServer)
