/**
 * The flags of the program. If a flag is given twice, the last value applies, so that a shell alias can be overridden.
 *
 * Source: `hermes-product.md` §1.1 and §1.2.
 */
import * as Flag from "effect/cli/Flag"
import { Configurable } from "../../base/domain/ApiMode.ts"
import type { AgentFile } from "../../base/config/AgentFile.ts"
import * as PermissionMode from "../../base/config/PermissionMode.ts"
import type * as Config from "../../base/config/Config.ts"

/** Returns the last value of a flag, or `undefined` if the flag is not given. */
export const takeLast = <A>(flag: Flag.Flag<A>, description: string): Flag.Flag<A | undefined> =>
  flag.pipe(
    Flag.withDescription(description),
    Flag.atLeast(0),
    Flag.map((values) => values.at(-1))
  )

/** Creates a flag with a text value. */
export const makeText = (
  name: string,
  metavar: string,
  description: string,
  alias?: string
): Flag.Flag<string | undefined> => {
  const flag = Flag.String(name).pipe(Flag.withMetavar(metavar))
  return takeLast(alias === undefined ? flag : Flag.withAlias(flag, alias), description)
}

/** Creates a flag with a text value that may be given several times. */
export const makeTexts = (
  name: string,
  metavar: string,
  description: string,
  alias?: string
): Flag.Flag<ReadonlyArray<string>> => {
  const flag = Flag.String(name).pipe(Flag.withMetavar(metavar), Flag.withDescription(description))
  return Flag.atLeast(alias === undefined ? flag : Flag.withAlias(flag, alias), 0)
}

/** Creates a flag with an integer value. */
export const makeInteger = (name: string, metavar: string, description: string): Flag.Flag<number | undefined> =>
  takeLast(Flag.Int(name).pipe(Flag.withMetavar(metavar)), description)

/** Creates a flag with a numeric value. */
export const makeNumber = (name: string, metavar: string, description: string): Flag.Flag<number | undefined> =>
  takeLast(Flag.Finite(name).pipe(Flag.withMetavar(metavar)), description)

/** Creates a flag whose value is one of several words. */
export const makeChoice = <const Names extends ReadonlyArray<string>>(
  name: string,
  names: Names,
  description: string
): Flag.Flag<Names[number] | undefined> => takeLast(Flag.Literals(name, names), description)

/** Creates a flag without a value. */
export const makeSwitch = (name: string, description: string, alias?: string): Flag.Flag<boolean> => {
  const flag = Flag.withoutNegation(Flag.Boolean(name))
  return Flag.map(
    takeLast(alias === undefined ? flag : Flag.withAlias(flag, alias), description),
    (value) => value ?? false
  )
}

/** Flags that are allowed before or after a command. */
export const globals = {
  model: makeText("model", "NAME", "Model to use", "m"),
  provider: makeText("provider", "NAME", "Provider of the model; custom for your own endpoint"),
  baseUrl: makeText("base-url", "URL", "Address of the provider's API"),
  apiMode: takeLast(
    Flag.Literals("api-mode", Configurable.literals),
    "Protocol of the API, if it cannot be detected from the address"
  ),
  toolsets: makeText("toolsets", "A,B", "Toolsets of this run (see `hermes tools`)", "t"),
  resume: makeText("resume", "SESSION", "Resume a session by id, id prefix, title, or latest (of this folder)", "r"),
  continue: takeLast(
    Flag.String("continue").pipe(Flag.withAlias("c"), Flag.withMetavar("NAME"), Flag.withOptionalValue("latest")),
    "Resume the latest session of this folder, or the one with this title"
  ),
  acceptHooks: makeSwitch("accept-hooks", "Run configured shell hooks without asking"),
  mode: takeLast(Flag.Literals("mode", PermissionMode.all), "Actions that need no approval"),
  yolo: makeSwitch("yolo", "Skip approvals (the hard deny list still applies)"),
  ignoreUserConfig: makeSwitch("ignore-user-config", "Ignore config.yaml and the plugins it enables"),
  ignoreRules: makeSwitch("ignore-rules", "Start without SOUL.md, project files and memory"),
  safeMode: makeSwitch(
    "safe-mode",
    "Ignore config.yaml, plugins, shell hooks, MCP servers, SOUL.md, project files and memory"
  ),
  passSessionId: makeSwitch("pass-session-id", "Put the session id into the system prompt"),
  verbose: makeSwitch("verbose", "Print more details to stderr", "v")
}

/** Flags of `chat`, and of `hermes` without a command. */
export const chat = {
  query: makeText("query", "TEXT", "Send one prompt, print the answer and exit; piped input is attached", "q"),
  queryFile: makeText("query-file", "PATH", "Read the prompt from a file; - is stdin"),
  answered: makeSwitch(
    "answered",
    "With --resume: continue a suspended run with the answers of `hermes sessions answer`"
  ),
  image: makeText("image", "PATH", "Attach an image to the prompt"),
  skills: makeTexts("skills", "A,B", "Skill to follow (see `hermes skills`); repeatable", "s"),
  agent: makeText("agent", "FILE", "Agent file, or its name (see `hermes agents`)"),
  quiet: makeSwitch("quiet", "Print only the final text", "Q"),
  plain: makeSwitch("plain", "Plain lines without colours, for screen readers"),
  format: takeLast(
    Flag.Literals("format", ["text", "stream-json"]),
    "Output format: text, or one JSON object per line"
  ),
  maxTurns: takeLast(Flag.Int("max-turns").pipe(Flag.withMetavar("N")), "Maximum number of model calls"),
  runBudget: takeLast(
    Flag.Finite("run-budget").pipe(Flag.withMetavar("SECONDS")),
    "Time limit of the run; the model is warned before it ends"
  ),
  source: makeText("source", "TAG", "Label stored with the session; tool hides the session from lists"),
  usageFile: makeText(
    "usage-file",
    "PATH",
    "Write the tokens and the cost of the run to a JSON file, also when it fails"
  ),
  outputSchema: makeText("output-schema", "FILE", "With a prompt: answer with JSON that matches this schema"),
  outputLastMessage: makeText("output-last-message", "FILE", "With --output-schema: also write the answer to a file"),
  oneshot: makeSwitch("oneshot", "With --query: print the answer and exit, also on a terminal"),
  oneshotPrompt: makeText(
    "oneshot-prompt",
    "TEXT",
    "For scripts: print only the answer; skip approvals; exit with 2 if the run fails",
    "z"
  ),
  script: makeText("script", "PATH", "Answer from a scenario file instead of a model"),
  record: makeText("record", "PATH", "Record model requests and responses to a file"),
  replay: makeText("replay", "PATH", "Answer from a recording instead of a model")
}

/** Type of the values of a record of flags. */
export type Parsed<F> = { readonly [K in keyof F]: F[K] extends Flag.Flag<infer A> ? A : never }

/** Values of {@link globals}. */
export type Globals = Parsed<typeof globals>

/** Values of {@link chat}. */
export type Chat = Parsed<typeof chat>

/** Splits a comma-separated list of names: `a,b`. */
export const splitNames = (list: string): ReadonlyArray<string> =>
  list
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "")

const toSettingsFlags = (flags: Globals & Partial<Chat>): ReadonlyArray<Config.Flag> => [
  { name: "--model", key: "model.default", value: flags.model },
  { name: "--provider", key: "model.provider", value: flags.provider },
  { name: "--base-url", key: "model.base_url", value: flags.baseUrl },
  { name: "--api-mode", key: "model.api_mode", value: flags.apiMode },
  { name: "--toolsets", key: "toolsets", value: flags.toolsets === undefined ? undefined : splitNames(flags.toolsets) },
  { name: "--max-turns", key: "agent.max_turns", value: flags.maxTurns },
  { name: "--run-budget", key: "agent.run_budget_seconds", value: flags.runBudget },
  { name: "--accept-hooks", key: "hooks_auto_accept", value: flags.acceptHooks ? true : undefined },
  { name: "--yolo", key: "approvals.mode", value: flags.yolo ? "off" : undefined },
  { name: "--yolo", key: "approvals.default_mode", value: flags.yolo ? "yolo" : undefined },
  { name: "--mode", key: "approvals.default_mode", value: flags.mode }
]

/** Returns the options for loading the settings with these flags and the agent file named by them. */
export const toConfigOptions = (
  flags: Globals & Partial<Chat> & { readonly agentFile?: AgentFile | undefined }
): Config.Options => ({
  flags: toSettingsFlags(flags),
  agent: flags.agentFile?.settings,
  ignoreUserConfig: flags.ignoreUserConfig,
  safeMode: flags.safeMode
})

/** Consent to the npm packages of a plugin. */
export const withDependencies = makeSwitch(
  "with-dependencies",
  "Install the npm packages of the plugin without asking; their scripts do not run"
)
