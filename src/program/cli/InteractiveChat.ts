/**
 * `hermes chat` on a terminal: creates the interactive session from the settings, with the slash commands of plugins,
 * and exits with its exit code.
 *
 * Source: `hermes-contract.md` §3.5 (`register_command`).
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Terminal from "effect/Terminal"
import * as Prompt from "effect/cli/Prompt"
import type { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import * as Config from "../../base/config/Config.ts"
import * as Edit from "../../base/config/Edit.ts"
import { Environment, Home } from "../../base/config/Environment.ts"
import * as DerivedSettings from "../../base/config/DerivedSettings.ts"
import * as FolderTrust from "../../base/config/FolderTrust.ts"
import * as InheritedLimits from "../../base/config/InheritedLimits.ts"
import * as PermissionMode from "../../base/config/PermissionMode.ts"
import { Settings, type Values } from "../../base/config/Settings.ts"
import * as Ids from "../../base/domain/Ids.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import * as VisibleText from "../../base/domain/VisibleText.ts"
import { version } from "../../base/domain/Version.ts"
import { SkillStore } from "../../tools/prompt/SkillStore.ts"
import type { Command } from "../../agent/plugin/Plugin.ts"
import { Plugins } from "../../agent/plugin/Plugins.ts"
import type { ReservedNames } from "../../agent/plugin/Registration.ts"
import { ModelRouter } from "../../models/routing/ModelRouter.ts"
import * as PathRoots from "../../tools/builtin/file/PathRoots.ts"
import * as ChatSkills from "./ChatSkills.ts"
import { confirmAction } from "./Confirm.ts"
import * as MemoryCommand from "./MemoryCommand.ts"
import * as Clipboard from "./Clipboard.ts"
import * as CommandSettings from "./CommandSettings.ts"
import * as ErrorLine from "./ErrorLine.ts"
import { makeWorkFailure, makeSilentFailure, makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import * as BuiltinCommands from "./interactive/BuiltinCommands.ts"
import { type Dialog, type DialogCommand, printLines } from "./interactive/Dialog.ts"
import * as InputHistory from "./interactive/InputHistory.ts"
import * as Interactive from "./interactive/Interactive.ts"
import * as NodeTerminal from "./interactive/internal/NodeTerminal.ts"
import type { NotifyOptions } from "./interactive/Notifications.ts"
import { listNames, stay } from "./interactive/SlashCommands.ts"
import { getWorkingDirectory } from "../../base/platform/CurrentProcess.ts"
import type { Start } from "../runtime/ProgramStart.ts"
import { Program } from "./Program.ts"
import * as ProgramCalls from "./ProgramCalls.ts"
import { Output } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"
import * as Theme from "./render/Theme.ts"
import * as ModelChoices from "./ModelChoices.ts"
import * as RunOptions from "./RunOptions.ts"
import * as SessionChoice from "./SessionChoice.ts"
import { askForOtherFolder, askForSession } from "./SessionQuestion.ts"

/** Time limit of a plugin command. */
const deadline = Duration.seconds(30)

/** Names of the program's own commands. */
export const reserved: ReservedNames = {
  commands: [...BuiltinCommands.commands.flatMap(listNames), ...ChatSkills.commandNames, "memory"],
  cliCommands: []
}

const reportProblem = (dialog: Dialog, line: string): void =>
  printLines(dialog, dialog.screen.asidePaint.text(ErrorLine.render(line).trimEnd(), "red"), "")

const toDialogCommand = ({ argsHint, description, name, run }: Command): DialogCommand => ({
  name,
  usage: SafeText.toLine(argsHint ?? ""),
  help: Redaction.redactText(SafeText.toLine(description ?? "")),
  run: (argument, dialog) =>
    Effect.suspend(() => run(argument)).pipe(
      Effect.timeoutOption(deadline),
      Effect.matchCauseEffect({
        onFailure: (cause) =>
          Cause.hasInterrupts(cause)
            ? Effect.interrupt
            : Effect.sync(() => reportProblem(dialog, ErrorLine.fromCause(cause).line)),
        onSuccess: (said) =>
          Effect.sync(() => {
            if (Option.isNone(said))
              reportProblem(dialog, `/${name} took longer than ${Duration.format(deadline)} and was stopped`)
            else if (typeof said.value === "string" && said.value !== "")
              printLines(dialog, Redaction.redactText(SafeText.sanitise(said.value)), "")
          })
      }),
      Effect.as(stay)
    )
})

/** Converts plugin commands to commands of a session. */
export const toDialogCommands = (given: ReadonlyArray<Command>): ReadonlyArray<DialogCommand> =>
  given.map(toDialogCommand)

const historyFile = "history.jsonl"

/** Asks whether a program named in the configuration may run. */
const confirmHook = Effect.gen(function* () {
  const context = yield* Effect.context<Prompt.Environment>()
  const { streams } = yield* Output
  const own = yield* Terminal.Terminal
  // Text that plugins print in the meantime is redirected. The program's own question is printed to the terminal.
  const terminal = Terminal.make({ ...own, display: (text) => Effect.sync(() => streams.answer.write(text)) })
  return ((hook, consent) => {
    // A value is not masked even if the name of its variable suggests a secret. Otherwise the user would approve a
    // hidden part of the command without seeing it.
    const command = VisibleText.showLine(Redaction.redactKeys(hook.command))
    const message =
      `${consent === "changed" ? "The program changed since it was approved. " : ""}Run "${command}" on ` +
      `${hook.event}?`
    return confirmAction(message).pipe(
      Effect.provideService(Terminal.Terminal, terminal),
      Effect.provideContext(context)
    )
  }) satisfies Start["confirmHook"]
})

/**
 * Asks whether to trust a folder that contains project files or in which programs would be started. Without the user's
 * consent, the files have no effect and no program is started in the folder.
 */
const askForFolder = Effect.gen(function* () {
  const trust = yield* FolderTrust.make
  const folder = getWorkingDirectory()
  const withheld = yield* trust.withheld(folder)
  const started = DerivedSettings.listServersStartedHere(yield* Settings)
  const reasons = [
    ...(withheld.length === 0 ? [] : [`${withheld.join(", ")} can name programs and instructions.`]),
    ...(started.length === 0 || (yield* trust.mayStartIn(folder))
      ? []
      : [`MCP servers start in this folder: ${started.join(", ")}.`])
  ]
  if (reasons.length === 0) return
  const project = yield* trust.findOwnProject(folder)
  const question = `${SafeText.toLine(reasons.join(" "))} Trust the files of ${SafeText.toLine(project)}?`
  if (yield* confirmAction(question))
    yield* Effect.mapError(trust.trust(project), ({ message }) => makeUsageFailure(message))
})

/**
 * Returns the notification options of the settings. Notifications are off on a terminal that would print their escape
 * sequences.
 */
const makeNotifyOptions = (
  { display }: Pick<Values, "display">,
  terminal: string | undefined,
  folder: string
): NotifyOptions | undefined =>
  terminal === undefined || terminal === "dumb" || terminal === "linux"
    ? undefined
    : {
        method: display.notify,
        after: Duration.seconds(display.notifyAfterSeconds),
        title: display.terminalTitle ? `${folder} · hermes` : undefined
      }

/** Opens text in the user's editor, using a file that only the user can read. */
const textEditor = Effect.gen(function* () {
  const context = yield* Effect.context<ChildProcessSpawner | Environment | FileSystem.FileSystem | Path.Path>()
  const editDraft = (text: string) =>
    Effect.gen(function* () {
      const files = yield* FileSystem.FileSystem
      const paths = yield* Path.Path
      const file = paths.join(yield* files.makeTempDirectoryScoped({ prefix: "hermes-prompt-" }), "prompt.md")
      yield* files.writeFileString(file, text, { mode: 0o600 })
      const ConfigCommand = yield* Effect.promise(() => import("./ConfigCommand.ts"))
      yield* ConfigCommand.editFile(file)
      return yield* files.readFileString(file)
    }).pipe(
      Effect.scoped,
      Effect.mapError((error) =>
        error._tag === "Failure" ? error : makeWorkFailure(`cannot use the editor's file: ${error.message}`)
      ),
      Effect.provideContext(context)
    )
  return editDraft
})

/** Returns the themes of the settings, and the function that saves another theme. */
const makeThemeOptions = Effect.fnUntraced(function* (settings: Values["display"]) {
  const { process } = yield* Environment
  const background = Theme.readBackground(process)
  const unknown = Theme.use(settings, background)
  if (unknown !== undefined) yield* Effect.logWarning(unknown)
  const context = yield* Effect.context<FileSystem.FileSystem | Home | Path.Path>()
  const saveTheme = (name: string) =>
    Effect.provideContext(
      Effect.map(Edit.set("display.theme", name), ({ file, key }) => `${key} in ${file}`),
      context
    )
  return { settings, background, save: saveTheme }
})

const runConversation = Effect.fnUntraced(function* (
  flags: RunOptions.ChatFlags,
  session: SessionChoice.ChosenSession
) {
  const settings = yield* Settings
  const environment = yield* Environment
  const home = yield* Home
  const paths = yield* Path.Path
  const router = yield* ModelRouter
  const plugins = yield* Plugins
  const { model, provider } = yield* router.primary
  const { printOn, streams } = yield* Output
  const input = yield* RunOptions.prepare(flags, settings)
  const skills = yield* SkillStore
  const memory = yield* MemoryCommand.store
  // Skills are loaded once before the session begins, so that an unknown name is an error of the command line.
  yield* ChatSkills.preloadSkills(skills, flags, session.id)
  const isLinear = flags.plain || environment.process["TERM"] === "dumb"
  const { display } = settings
  return yield* Interactive.run({
    folder: yield* SessionChoice.readFolder,
    preload: (id, prompt) =>
      Effect.map(
        Effect.orElseSucceed(ChatSkills.preloadSkills(skills, flags, id), () => undefined),
        (text) => ChatSkills.withSkills(text, prompt)
      ),
    history: yield* InputHistory.openHistory(paths.join(home.root, historyFile)),
    terminal: yield* NodeTerminal.make({ stdout: streams.answer.write, stderr: streams.aside.write, isLinear }),
    printed: printOn,
    display:
      isLinear && display.finalResponseMarkdown === "render" ? { ...display, finalResponseMarkdown: "strip" } : display,
    about: {
      version,
      provider,
      model,
      cwd: getWorkingDirectory(),
      userHome: environment.get("HOME") ?? environment.get("USERPROFILE")
    },
    session,
    newSession: Ids.makeSessionId,
    input,
    places: yield* PathRoots.make({
      home: environment.get("HOME") ?? environment.get("USERPROFILE"),
      agentHome: home.root
    }),
    commands: [
      MemoryCommand.makeDialogCommand(memory),
      ...toDialogCommands((yield* plugins.loaded).commands),
      ...(yield* ChatSkills.makeCommands(skills))
    ],
    attach: plugins.attach,
    editText: yield* textEditor,
    mode: PermissionMode.fromSettings(settings.approvals),
    models: yield* ModelChoices.make,
    program: yield* ProgramCalls.make,
    remember: (text) =>
      Effect.as(
        memory.change("memory", [{ action: "add", content: text }]),
        paths.join(home.root, "memories", "MEMORY.md")
      ),
    home: home.root,
    clipboard: yield* Clipboard.make,
    theme: isLinear ? undefined : yield* makeThemeOptions(settings.display),
    notify: isLinear
      ? undefined
      : makeNotifyOptions(settings, environment.process["TERM"], paths.basename(getWorkingDirectory())),
    status:
      settings.display.statusLine && !isLinear
        ? {
            compactAt: settings.compression.enabled ? settings.compression.threshold : undefined,
            home: environment.process["HOME"]
          }
        : undefined,
    quickCommands: settings.quickCommands
  })
})

/** Sets up a model if none is configured and no flag selects another source of answers. */
const firstRun = Effect.fnUntraced(function* (flags: RunOptions.ChatFlags) {
  const { model, replay, safeMode, script } = flags
  const { process } = yield* Environment
  if (script !== undefined || replay !== undefined || model !== undefined || safeMode || process["TERM"] === "dumb")
    return
  if (InheritedLimits.readLimits(process) !== undefined) return
  const { firstRun } = yield* Effect.promise(() => import("./ModelSetup.ts"))
  yield* firstRun(Flags.toConfigOptions(flags))
}, Effect.provide(CommandSettings.surroundings))

/** Runs a conversation in the terminal until the user leaves it. Returns the exit code. */
export const run = Effect.fnUntraced(function* (flags: RunOptions.ChatFlags) {
  const program = yield* Program
  yield* firstRun(flags)
  const code = yield* Effect.gen(function* () {
    const settings = yield* Settings
    const environment = yield* Environment
    if (InheritedLimits.readLimits(environment.process) !== undefined) {
      return yield* makeUsageFailure(
        "This process was started by another run; a conversation is not possible. Pass a prompt with -q TEXT."
      )
    }
    yield* askForFolder
    const fresh = yield* Ids.makeSessionId
    const session = yield* SessionChoice.choose(flags, fresh).pipe(
      Effect.flatMap((chosen) => askForOtherFolder(chosen, fresh)),
      Effect.catchTag("SessionNotFound", (error) => askForSession(error, fresh))
    )
    yield* SessionChoice.mentionFolder(session.known)
    yield* RunOptions.mentionKept(flags, session.known)
    // The set-up was already offered, and a note already names the source of answers.
    const start = {
      ...flags,
      unconfigured: "standIn",
      confirmHook: yield* confirmHook,
      reserved,
      session: session.known?.id
    } as const
    return yield* runConversation(flags, session).pipe(Effect.provide(program.layer(settings, start)))
  }).pipe(Effect.provide(Config.layerAll(Flags.toConfigOptions(flags))), Effect.scoped)
  return code === 0 ? undefined : yield* makeSilentFailure(code)
})
