/**
 * `hermes chat` on a terminal: makes the interactive session of the settings, and leaves with its exit code.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Terminal from "effect/Terminal"
import * as Prompt from "effect/cli/Prompt"
import { Agent } from "../agent/Agent.ts"
import { BackgroundWork } from "../agent/BackgroundWork.ts"
import { Children } from "../agent/Children.ts"
import * as Config from "../config/Config.ts"
import { Environment } from "../config/Environment.ts"
import { Home } from "../config/Home.ts"
import * as InheritedLimits from "../config/InheritedLimits.ts"
import { Settings } from "../config/Settings.ts"
import * as Ids from "../domain/Ids.ts"
import * as Redaction from "../domain/Redaction.ts"
import { Hooks } from "../hooks/Hooks.ts"
import { Plugins } from "../plugin/Plugins.ts"
import { Auxiliary } from "../routing/Auxiliary.ts"
import { ModelRouter } from "../routing/ModelRouter.ts"
import { RouterStatus } from "../routing/ModelRouter.ts"
import { SessionStore } from "../session/SessionStore.ts"
import * as Shell from "../tool/builtin/terminal/Shell.ts"
import { ToolRegistry } from "../tool/ToolRegistry.ts"
import * as RunOptions from "./RunOptions.ts"
import { silent, usage } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import * as InputHistory from "./interactive/InputHistory.ts"
import * as Interactive from "./interactive/Interactive.ts"
import * as NodeTerminal from "./interactive/internal/NodeTerminal.ts"
import * as SafeText from "./render/SafeText.ts"
import { workingDirectory } from "./internal/machine.ts"
import * as PluginsDialog from "./PluginsDialog.ts"
import { Output } from "./ProgramOutput.ts"
import { Program, type Start } from "./Program.ts"
import * as SessionChoice from "./SessionChoice.ts"
import { version } from "./Version.ts"

const historyFile = "history.jsonl"

/** Asks whether a program of the configuration may run. */
const confirmHook = Effect.gen(function*() {
  const context = yield* Effect.context<Prompt.Environment>()
  const { streams } = yield* Output
  const own = yield* Terminal.Terminal
  // What plugins print meanwhile goes elsewhere; a question of the program's own does not.
  const terminal = Terminal.make({ ...own, display: (text) => Effect.sync(() => streams.answer.write(text)) })
  return ((hook, consent) => {
    const command = Redaction.redactText(SafeText.line(hook.command))
    const message = `${consent === "changed" ? "The program changed since it was approved. " : ""}Run "${command}" on ${hook.event}?`
    return Prompt.run(Prompt.Confirm({ message, initial: false })).pipe(
      Effect.provideService(Terminal.Terminal, terminal),
      Effect.provideContext(context),
      // Leaving the question is no consent.
      Effect.orElseSucceed(() => false)
    )
  }) satisfies Start["confirmHook"]
})

const converse = Effect.fnUntraced(function*(flags: RunOptions.ChatFlags, session: SessionChoice.Chosen) {
  const settings = yield* Settings
  const home = yield* Home
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const router = yield* ModelRouter
  const plugins = yield* Plugins
  const { model, provider } = yield* router.primary
  const { printOn, streams } = yield* Output
  const input = yield* RunOptions.prepare(flags, settings)
  return yield* Interactive.run({
    agent: yield* Agent,
    store: yield* SessionStore,
    hooks: yield* Hooks,
    registry: yield* ToolRegistry,
    shell: yield* Shell.make,
    history: yield* InputHistory.file(paths.join(home.root, historyFile)),
    terminal: yield* NodeTerminal.make({ stdout: streams.answer.write, stderr: streams.aside.write }),
    printed: printOn,
    display: settings.display,
    about: { version, provider, model, cwd: workingDirectory() },
    routes: Option.getOrUndefined(yield* Effect.serviceOption(RouterStatus))?.routes,
    session,
    newSession: Ids.makeSessionId,
    input,
    commands: PluginsDialog.commands((yield* plugins.loaded).commands),
    attach: plugins.attach,
    background: yield* BackgroundWork,
    auxiliary: yield* Auxiliary,
    children: yield* Children,
    quickCommands: settings.quickCommands,
    directoryOf: (session) => Effect.provideService(RunOptions.directoryOf(session), FileSystem.FileSystem, fs)
  })
})

export const run = Effect.fnUntraced(function*(flags: RunOptions.ChatFlags) {
  const program = yield* Program
  const code = yield* Effect.gen(function*() {
    const settings = yield* Settings
    const environment = yield* Environment
    if (InheritedLimits.read(environment.process) !== undefined) {
      return yield* usage("This process was started by another run; a conversation is not possible. Pass a prompt with -q TEXT.")
    }
    const session = yield* SessionChoice.choose(flags, yield* Ids.makeSessionId)
    const start = { ...flags, confirmHook: yield* confirmHook, reserved: PluginsDialog.reserved }
    return yield* converse(flags, session).pipe(Effect.provide(program.layer(settings, start)))
  }).pipe(Effect.provide(Config.layerAll(Flags.configOptions(flags))), Effect.scoped)
  return code === 0 ? undefined : yield* silent(code)
})
