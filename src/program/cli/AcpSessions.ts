/**
 * Sessions of `hermes acp`: the runtime for the directory of each session, its models, and its slash commands.
 *
 * Source: Agent Client Protocol, `hermes-product.md` §1.7, §1.8 and §2.2.
 */
import type { McpServer } from "@agentclientprotocol/sdk/unstable"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Context from "effect/Context"
import { Environment, Home } from "../../base/config/Environment.ts"
import * as FolderTrust from "../../base/config/FolderTrust.ts"
import * as PermissionMode from "../../base/config/PermissionMode.ts"
import * as Sections from "../../base/config/ProgramSections.ts"
import { Settings, type Values } from "../../base/config/Settings.ts"
import * as Ids from "../../base/domain/Ids.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import * as Secrets from "../../base/domain/Secrets.ts"
import * as LiveSession from "../../serve/host/LiveSession.ts"
import { StartDirectory } from "../../base/platform/CurrentProcess.ts"
import { Plugins } from "../../agent/plugin/Plugins.ts"
import { SkillStore } from "../../tools/prompt/SkillStore.ts"
import * as SkillText from "../../tools/prompt/SkillText.ts"
import * as ConfiguredRoutes from "../../models/routing/ConfiguredRoutes.ts"
import { ModelRouter } from "../../models/routing/ModelRouter.ts"
import * as AcpAgent from "../../serve/server/acp/AcpAgent.ts"
import * as StoredSessions from "../runtime/StoredSessions.ts"
import * as EditorFiles from "../../tools/builtin/file/EditorFiles.ts"
import * as AcpSession from "../../serve/server/acp/AcpSession.ts"
import * as ChangeSets from "../../store/ChangeSets.ts"
import type { RunRecord } from "../../store/RunRecord.ts"
import * as SessionFork from "../../store/SessionFork.ts"
import * as SessionStore from "../../store/SessionStore.ts"
import { FileUndo } from "../../tools/FileUndo.ts"
import * as ChangeReports from "./ChangeReports.ts"
import * as CommandSettings from "./CommandSettings.ts"
import * as ErrorLine from "./ErrorLine.ts"
import type { Failure } from "./Failure.ts"
import type * as Flags from "./Flags.ts"
import { hermes } from "./Hermes.ts"
import * as ModelChoices from "./ModelChoices.ts"
import { Output } from "./ProgramOutput.ts"
import { Program } from "./Program.ts"
import * as Paint from "./render/Paint.ts"
import { selectTools } from "./RunOptions.ts"

/** Toolset of this platform, used if the settings do not name any toolsets. */
const toolset = "hermes-acp"

const toInternalFailure = (error: { readonly message: string }): AcpSession.AcpFailure =>
  AcpSession.makeFailure("internal", error.message)

const toInvalidRequest = (error: Failure): AcpSession.AcpFailure =>
  AcpSession.makeFailure("invalid_request", ErrorLine.fromError(error).line)

const decodeServer = Schema.decodeUnknownEffect(Sections.mcpServer)

const toRecord = (pairs: ReadonlyArray<{ readonly name: string; readonly value: string }>) =>
  Object.fromEntries(pairs.map(({ name, value }) => [name, value]))

/** Converts an MCP server named by the editor to the format of the settings. */
const toServerSettings = Effect.fnUntraced(function* (
  server: McpServer,
  cwd: string
): Effect.fn.Return<readonly [string, Values["mcpServers"][string]], AcpSession.AcpFailure> {
  const { name } = server
  const given =
    "command" in server
      ? { command: server.command, args: server.args, env: toRecord(server.env), cwd }
      : // A server that speaks the transport of 2024 is found out by its answer.
        "url" in server && "type" in server && (server.type === "http" || server.type === "sse")
        ? { url: server.url, headers: toRecord(server.headers) }
        : undefined
  if (given === undefined)
    return yield* AcpSession.makeFailure(
      "invalid_params",
      `The MCP server "${name}" has a transport that is not supported. Use stdio, http or sse.`
    )
  const value = yield* Effect.mapError(decodeServer(given), ({ message }) =>
    AcpSession.makeFailure("invalid_params", `The MCP server "${name}" is invalid: ${message}`)
  )
  yield* Secrets.registerSecrets(value)
  return [name, value]
})

const plain = { paint: Paint.plain, columns: 100, most: 200 }

/** Creates the slash commands for the conversation and its files. */
const makeBuiltinCommands = (
  live: LiveSession.LiveSession,
  services: Context.Context<FileUndo | RunRecord | SessionStore.SessionStore>
): ReadonlyArray<AcpSession.AcpCommand> => {
  const toCommandRun =
    (
      work: (
        argument: string
      ) => Effect.Effect<string, { readonly message: string }, FileUndo | RunRecord | SessionStore.SessionStore>
    ): AcpSession.AcpCommand["run"] =>
    (argument) =>
      Effect.scoped(Effect.andThen(live.hold, work(argument))).pipe(
        Effect.map((say) => ({ say })),
        Effect.mapError(({ message }) => message),
        Effect.provideContext(services)
      )
  const history = Effect.flatMap(live.state, ({ session }) => ChangeSets.readHistory(session.id))

  const makeUndoWork = (direction: "undo" | "redo") =>
    Effect.fnUntraced(function* (argument: string) {
      const { left, runs } = yield* history
      const changed = { left, runs: runs.filter(({ changes }) => changes.length > 0) }
      const set = Option.getOrUndefined(
        direction === "undo" ? ChangeSets.findUndoTarget(changed) : ChangeSets.findRedoTarget(changed)
      )
      if (set === undefined) return `Nothing to ${direction}.`
      const undo = yield* FileUndo
      const plan = yield* undo.plan(set, direction)
      const isForced = argument === "force"
      if (plan.conflicts.length > 0 && !isForced && argument !== "keep") {
        return [
          ...ChangeReports.renderConflicts(plan, plain),
          `Nothing was changed. Type /${direction} force to overwrite them, or /${direction} keep to skip them.`
        ].join("\n")
      }
      return ChangeReports.renderOutcome(plan, yield* undo.apply(plan, { isOverwriting: isForced })).join("\n")
    })

  return [
    {
      name: "compact",
      description: "Summarise the conversation so far, to make room",
      hint: "subject to keep",
      run: (focus) =>
        live.compact(focus === "" ? {} : { focus }).pipe(
          Effect.map(({ warning }) => ({ say: warning ?? "The conversation was compacted." })),
          Effect.mapError(({ message }) => message)
        )
    },
    {
      name: "diff",
      description: "Show the file changes of the last turn",
      run: toCommandRun(() =>
        Effect.gen(function* () {
          const last = (yield* history).runs
            .filter(({ changes, undone }) => changes.length > 0 && undone === undefined)
            .at(-1)
          const files = yield* FileUndo.use(({ diffs }) => diffs(last?.changes ?? []))
          return files.length === 0
            ? "No file was changed."
            : files.map(({ diff }) => `\`\`\`diff\n${Redaction.redactText(diff)}\`\`\``).join("\n")
        })
      )
    },
    {
      name: "undo",
      description: "Undo the file changes of the last turn",
      hint: "force or keep",
      run: toCommandRun(makeUndoWork("undo"))
    },
    {
      name: "redo",
      description: "Redo the file changes that were undone last",
      hint: "force or keep",
      run: toCommandRun(makeUndoWork("redo"))
    }
  ]
}

/**
 * Returns the slash commands for skills. Each sends the text of its skill, followed by the arguments of the command.
 */
const listSkillCommands = Effect.fnUntraced(function* (live: LiveSession.LiveSession) {
  const store = yield* SkillStore
  const { skills } = yield* store.catalogue
  return skills.map(({ facts, name }): AcpSession.AcpCommand => ({
    name,
    description: facts.description,
    hint: "message",
    run: (argument) =>
      Effect.gen(function* () {
        const { session } = yield* live.state
        const text = SkillText.renderMessage(yield* store.view(name, { session: session.id }))
        return { prompt: `${text}\n\n${argument === "" ? "Follow the skill above." : argument}` }
      }).pipe(Effect.mapError(({ message }) => message))
  }))
})

const ofPlugins = Effect.map(
  Plugins.use(({ loaded }) => loaded),
  ({ commands }) =>
    commands.map(({ argsHint, description, name, run }): AcpSession.AcpCommand => ({
      name,
      description: description ?? "",
      hint: argsHint,
      run: (argument) =>
        run(argument).pipe(
          Effect.map((said) => ({ say: typeof said === "string" ? Redaction.redactText(said) : "" })),
          Effect.mapError((error) => ErrorLine.fromError(error).line)
        )
    }))
)

/** Opens the live session of a client over the runtime in the context. */
const openLiveSession = Effect.fnUntraced(function* (
  { cwd, id }: AcpAgent.OpenRequest,
  settings: Values,
  flags: Flags.Globals
) {
  const router = yield* ModelRouter
  const named = settings.platformToolsets["acp"] ?? settings.toolsets
  const isOwn = named.length === 1 && named[0] === "hermes-cli"
  const tools = yield* Effect.mapError(
    selectTools(flags, {
      ...settings,
      platformToolsets: { ...settings.platformToolsets, cli: isOwn && flags.toolsets === undefined ? [toolset] : named }
    }),
    toInvalidRequest
  )
  const live = yield* LiveSession.make({
    forms: "client",
    session: { id, cwd },
    cwd,
    input: {
      tools,
      source: "acp",
      platform: "acp",
      maxIterations: settings.agent.maxTurns,
      streaming: settings.model.streaming
    },
    mode: PermissionMode.fromSettings(settings.approvals)
  })
  const choices = yield* ModelChoices.make
  const commands = [
    ...makeBuiltinCommands(live, yield* Effect.context<FileUndo | RunRecord | SessionStore.SessionStore>()),
    ...(yield* ofPlugins),
    ...(yield* listSkillCommands(live))
  ]
  const route = router.primaryRoute
  const changes = Effect.flatMap(live.state, ({ session }) => ChangeSets.readHistory(session.id))
  return {
    live,
    cwd,
    changes: Effect.provideContext(
      Effect.map(changes, ({ runs }) => runs),
      yield* Effect.context<RunRecord>()
    ),
    models: Effect.map(choices.list, (list) =>
      list.map(({ model, origin, provider, route, window }): AcpSession.AcpModel => ({
        id: `${provider}/${model}`,
        name: model,
        description: [provider, origin, ...(window === undefined ? [] : [`${window} tokens`])].join(" · "),
        route
      }))
    ),
    commands: commands.filter(({ name }, index) => commands.findIndex((other) => other.name === name) === index),
    window:
      route === undefined || router.catalogue === undefined
        ? Effect.undefined
        : Effect.map(Effect.flatMap(route, router.catalogue.window), ({ source, tokens }) =>
            source === "default" ? undefined : tokens
          )
  }
})

/** Reports that the files of a folder do not take effect yet, and how to trust the folder. */
const mentionTrust = Effect.fnUntraced(function* (folder: string) {
  const trust = yield* FolderTrust.make
  const withheld = yield* trust.withheld(folder)
  if (withheld.length === 0) return []
  return [
    `${withheld.join(", ")} of this project have no effect, because the folder is not trusted. Review ` +
      `them, then run \`${FolderTrust.renderRemedy(yield* trust.findOwnProject(folder))}\`.`
  ]
})

/**
 * Creates the service that manages the sessions of `hermes acp`. Sessions are stored in the home directory, and each
 * has its own runtime.
 */
export const make = Effect.gen(function* () {
  const program = yield* Program
  // Omits the scope of the program, so that resources opened by a session are closed with the session.
  const context = Context.omit(Scope.Scope)(
    yield* Effect.context<Environment | FileSystem.FileSystem | Home | Output | Path.Path | Settings>()
  )
  const paths = yield* Path.Path
  const files = yield* FileSystem.FileSystem
  const flags = yield* hermes
  const load = Effect.provideContext(
    CommandSettings.load,
    yield* Effect.context<Effect.Services<typeof CommandSettings.load>>()
  )

  const { layer } = yield* StoredSessions.findStore(yield* Settings)

  /** Runs an effect with the session store. */
  const withSessionStore = <A, E extends { readonly message: string }>(
    work: Effect.Effect<A, E, RunRecord | SessionStore.SessionStore>
  ): Effect.Effect<A, AcpSession.AcpFailure> =>
    work.pipe(Effect.provide(layer), Effect.mapError(toInternalFailure), Effect.provideContext(context))

  const host: AcpAgent.AcpHost = {
    open: Effect.fnUntraced(function* (request) {
      const isThere = yield* Effect.orElseSucceed(
        Effect.map(files.stat(request.cwd), ({ type }) => type === "Directory"),
        () => false
      )
      if (!isThere) return yield* AcpSession.makeFailure("invalid_params", `cwd "${request.cwd}" is not a directory.`)
      const servers = yield* Effect.forEach(request.mcpServers, (server) => toServerSettings(server, request.cwd))
      // The settings are loaded again: another session may have added a permanent approval, and the user may have added
      // a model.
      const { settings } = yield* Effect.mapError(load, toInternalFailure)
      const own = { ...settings, mcpServers: { ...settings.mcpServers, ...Object.fromEntries(servers) } }
      if (ConfiguredRoutes.findMissingModel({ settings: own, environment: yield* Environment }) !== undefined) {
        return yield* AcpSession.makeFailure(
          "auth_required",
          "No model is configured. Run `hermes model` in a terminal."
        )
      }
      const runtime = yield* Layer.build(
        program.layer(own, {
          session: request.stored?.id,
          environment: (environment) => EditorFiles.wrapEnvironment(environment, request.files, request.cwd, paths),
          middleware: [EditorFiles.middleware],
          folder: request.cwd
        })
      ).pipe(
        Effect.provideService(StartDirectory, () => request.cwd),
        Effect.mapError(toInternalFailure)
      )
      const session = yield* Effect.provideContext(openLiveSession(request, own, flags), runtime)
      return { ...session, notices: yield* mentionTrust(request.cwd) }
    }, Effect.provideContext(context)),
    list: withSessionStore(
      Effect.map(
        SessionStore.SessionStore.use((store) => store.list({ limit: Number.MAX_SAFE_INTEGER })),
        (all) => {
          const continued = new Set(all.flatMap(({ continues }) => continues ?? []))
          return all.filter(
            ({ continues, id, parentId }) => !continued.has(id) && (parentId === undefined || continues !== undefined)
          )
        }
      )
    ),
    find: (id) =>
      withSessionStore(
        SessionStore.SessionStore.use((store) =>
          Effect.map(Effect.flatMap(store.newest(Ids.SessionId.make(id)), store.get), Option.getOrUndefined)
        )
      ),
    fork: (session) =>
      withSessionStore(
        Effect.gen(function* () {
          const history = yield* SessionStore.SessionStore.use((store) => store.messages(session.id))
          return yield* SessionFork.fork(session, {
            history,
            originals: history,
            position: history.length,
            changed: [],
            source: "acp"
          })
        })
      ),
    remove: (id) => withSessionStore(SessionStore.SessionStore.use((store) => store.remove(id)))
  }
  return host
})
