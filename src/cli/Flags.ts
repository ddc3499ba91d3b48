/**
 * The flags of the program. Of one that is given twice the last counts, so that a shell alias can be overridden.
 *
 * Source: `hermes-product.md` §1.1 and §1.2.
 */
import * as Flag from "effect/cli/Flag"
import { Configurable } from "../domain/ApiMode.ts"
import type { AgentFile } from "../config/AgentFile.ts"
import * as PermissionMode from "../config/PermissionMode.ts"
import type * as Config from "../config/Config.ts"

/** The last value of a flag, undefined when it is not given. */
export const last = <A>(flag: Flag.Flag<A>, description: string): Flag.Flag<A | undefined> =>
  flag.pipe(Flag.withDescription(description), Flag.atLeast(0), Flag.map((values) => values.at(-1)))

/** A flag with a text behind it. */
export const text = (name: string, metavar: string, description: string, alias?: string): Flag.Flag<string | undefined> => {
  const flag = Flag.String(name).pipe(Flag.withMetavar(metavar))
  return last(alias === undefined ? flag : Flag.withAlias(flag, alias), description)
}

/** A flag with a text behind it that may be given several times. */
export const many = (name: string, metavar: string, description: string, alias?: string): Flag.Flag<ReadonlyArray<string>> => {
  const flag = Flag.String(name).pipe(Flag.withMetavar(metavar), Flag.withDescription(description))
  return Flag.atLeast(alias === undefined ? flag : Flag.withAlias(flag, alias), 0)
}

/** A flag that is there or not. */
export const yes = (name: string, description: string, alias?: string): Flag.Flag<boolean> => {
  const flag = Flag.withoutNegation(Flag.Boolean(name))
  return Flag.map(last(alias === undefined ? flag : Flag.withAlias(flag, alias), description), (value) => value ?? false)
}

/** Flags that stand before a command or behind it. */
export const globals = {
  model: text("model", "NAME", "Model to use", "m"),
  provider: text("provider", "NAME", "Provider of the model; custom for your own endpoint"),
  baseUrl: text("base-url", "URL", "Address of the provider's API"),
  apiMode: last(Flag.Literals("api-mode", Configurable.literals), "Protocol of the API, if it cannot be detected from the address"),
  toolsets: text("toolsets", "A,B", "Toolsets of this run (`hermes tools` lists them)", "t"),
  resume: text("resume", "SESSION", "Resume a session by id, id prefix, title, or latest (of this folder)", "r"),
  continue: last(
    Flag.String("continue").pipe(Flag.withAlias("c"), Flag.withMetavar("NAME"), Flag.withOptionalValue("latest")),
    "Resume the latest session of this folder, or the one with this title"
  ),
  acceptHooks: yes("accept-hooks", "Run configured shell hooks without asking"),
  mode: last(Flag.Literals("mode", PermissionMode.all), "What runs without a question"),
  yolo: yes("yolo", "Skip approvals (the hard deny list still applies)"),
  ignoreUserConfig: yes("ignore-user-config", "Ignore config.yaml and the plugins it enables"),
  ignoreRules: yes("ignore-rules", "Begin without SOUL.md, the project's files and what is remembered"),
  safeMode: yes("safe-mode", "Use neither config.yaml, plugins, shell hooks and MCP servers nor SOUL.md, the project's files and memory"),
  passSessionId: yes("pass-session-id", "Put the session id into the system prompt"),
  verbose: yes("verbose", "Print more details to stderr", "v")
}

/** Flags of `chat`, and of `hermes` without a command. */
export const chat = {
  query: text("query", "TEXT", "Send one prompt, print the answer and exit; piped input is attached", "q"),
  queryFile: text("query-file", "PATH", "Read the prompt from a file; - is stdin"),
  image: text("image", "PATH", "Attach an image to the prompt"),
  skills: many("skills", "A,B", "Skills to follow (`hermes skills` lists them); repeatable", "s"),
  agent: text("agent", "FILE", "Agent file, or the name of one (`hermes agents` lists them)"),
  quiet: yes("quiet", "Print only the final text", "Q"),
  plain: yes("plain", "Plain lines without drawing and colours, for screen readers"),
  format: last(Flag.Literals("format", ["text", "stream-json"]), "Output format: text, or one JSON object per line"),
  maxTurns: last(Flag.Int("max-turns").pipe(Flag.withMetavar("N")), "Maximum number of model calls"),
  runBudget: last(Flag.Finite("run-budget").pipe(Flag.withMetavar("SECONDS")), "Time limit of the run; the model is warned before it ends"),
  source: text("source", "TAG", "Label stored with the session; tool hides the session from lists"),
  usageFile: text("usage-file", "PATH", "Write the tokens and the cost of the run to a JSON file, also when it fails"),
  outputSchema: text("output-schema", "FILE", "With a prompt: the answer is JSON that fits this JSON Schema"),
  outputLastMessage: text("output-last-message", "FILE", "With --output-schema: write the answer to a file, too"),
  oneshot: yes("oneshot", "With --query: print the answer and exit, also on a terminal"),
  oneshotPrompt: text("oneshot-prompt", "TEXT", "For scripts: print the answer alone; skips approvals, and exits with 2 if the run fails", "z"),
  script: text("script", "PATH", "Answer from a scenario file instead of a model"),
  record: text("record", "PATH", "Record model requests and responses to a file"),
  replay: text("replay", "PATH", "Answer from a recording instead of a model")
}

/** The values of a record of flags. */
export type Parsed<F> = { readonly [K in keyof F]: F[K] extends Flag.Flag<infer A> ? A : never }

/** The values of {@link globals}. */
export type Globals = Parsed<typeof globals>

/** The values of {@link chat}. */
export type Chat = Parsed<typeof chat>

/** The names of a list as flags take it: `a,b`. */
export const names = (list: string): ReadonlyArray<string> => list.split(",").map((name) => name.trim()).filter((name) => name !== "")

const settings = (flags: Globals & Partial<Chat>): ReadonlyArray<Config.Flag> => [
  { name: "--model", key: "model.default", value: flags.model },
  { name: "--provider", key: "model.provider", value: flags.provider },
  { name: "--base-url", key: "model.base_url", value: flags.baseUrl },
  { name: "--api-mode", key: "model.api_mode", value: flags.apiMode },
  { name: "--toolsets", key: "toolsets", value: flags.toolsets === undefined ? undefined : names(flags.toolsets) },
  { name: "--max-turns", key: "agent.max_turns", value: flags.maxTurns },
  { name: "--run-budget", key: "agent.run_budget_seconds", value: flags.runBudget },
  { name: "--accept-hooks", key: "hooks_auto_accept", value: flags.acceptHooks ? true : undefined },
  { name: "--yolo", key: "approvals.mode", value: flags.yolo ? "off" : undefined },
  { name: "--yolo", key: "approvals.default_mode", value: flags.yolo ? "yolo" : undefined },
  { name: "--mode", key: "approvals.default_mode", value: flags.mode }
]

/** Options for loading the settings under these flags, and under the agent file that they name. */
export const configOptions = (flags: Globals & Partial<Chat> & { readonly agentFile?: AgentFile | undefined }): Config.Options => ({
  flags: settings(flags),
  agent: flags.agentFile?.settings,
  ignoreUserConfig: flags.ignoreUserConfig,
  safeMode: flags.safeMode
})
