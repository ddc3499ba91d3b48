// The same mistake ends every subcommand in the same way: one line on stderr that names it, exit code 2.
import { assert, describe, it } from "@effect/vitest"
import type * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { commandNames, makeRootCommand } from "../../../src/program/cli/Hermes.ts"
import { machine } from "../../support/hermesInProcess.ts"

/** Every command of the program, as the words of it. */
const commandsOf = (command: Command.Command.Any, path: string): ReadonlyArray<string> =>
  command.subcommands.flatMap(({ commands }) =>
    commands.flatMap((one) => {
      const own = `${path} ${one.name}`.trim()
      return [own, ...commandsOf(one, own)]
    })
  )

interface Case {
  readonly args: string
  /** The line on stderr. */
  readonly line: string | RegExp
}

const unknown = (kind: string, list: string) => `no ${kind} "nope": list them with \`${list}\``
const session = unknown("session", "hermes sessions list")
const job = unknown("job", "hermes cron list")
const plugin = unknown("plugin", "hermes plugins list")
const server = unknown("MCP server", "hermes mcp list")
const toolset = unknown("toolset", "hermes tools")
const setting = unknown("setting", "hermes config show")
const nowhere = "/nowhere/at/all"
const unwritable = `${nowhere} cannot be written: no such file or directory`

/** For each command, names of nothing and paths that cannot be used, in each place that takes one. */
const noCluster =
  "cluster.database_url is not set: `hermes config set cluster.database_url postgres://user:password@host:port/database`"

const mistakes: Readonly<Record<string, ReadonlyArray<Case>>> = {
  chat: [
    { args: "chat -q hi --resume nope", line: session },
    { args: "chat -q hi --continue nope", line: session },
    {
      args: "chat -q hi --provider nope",
      line: 'model.provider: unknown provider "nope": For an endpoint of your own use the provider custom with model.base_url'
    },
    { args: `chat -q hi --script ${nowhere}`, line: `${nowhere}: no such file` },
    { args: `chat -q hi --replay ${nowhere}`, line: `${nowhere}: no such file` },
    {
      args: `chat -q hi --record ${nowhere}`,
      line: `the recording cannot be written to ${nowhere}: no such file or directory`
    },
    { args: `chat -q hi --image ${nowhere}.png`, line: `cannot read --image ${nowhere}.png: file not found` },
    { args: `chat --query-file ${nowhere}`, line: `cannot read --query-file ${nowhere}: file not found` }
  ],
  "model set": [
    {
      args: "model set x --provider nope",
      line: 'model.provider: unknown provider "nope": For an endpoint of your own use the provider custom with model.base_url'
    }
  ],
  "model profile set": [
    {
      args: "model profile set window abc",
      line: /^window cannot be abc: set window or output_maximum to a number[^\n]+$/
    }
  ],
  "model profile forget": [
    { args: "model profile forget nothing", line: /^nothing named nothing was learnt about [^\n]+$/ }
  ],
  "model login": [{ args: "model login --provider nope", line: /^nope uses a key, not a login: [^\n]+$/ }],
  "prompt show": [{ args: "prompt show nope", line: session }],
  "sessions show": [{ args: "sessions show nope", line: session }],
  "sessions rename": [{ args: "sessions rename nope x", line: session }],
  "sessions prune": [
    { args: "sessions prune --older-than -1 --yes", line: "--older-than must be a number of days, 0 or more" }
  ],
  "sessions search": [
    { args: "sessions search word --session-id nope", line: session },
    { args: "sessions search word --limit 0", line: "--limit must be 1 or more" }
  ],
  insights: [{ args: "insights --days 0", line: "--days must be a number from 1 to 3650" }],
  "sessions fork": [
    { args: "sessions fork nope", line: session },
    { args: "sessions fork nope --step 0", line: "--step must be the number of an answer, 1 or more" }
  ],
  "sessions delete": [{ args: "sessions delete nope --yes", line: session }],
  "sessions diff": [{ args: "sessions diff nope", line: session }],
  "sessions undo": [
    { args: "sessions undo nope", line: session },
    { args: "sessions undo nope --force --keep", line: "--force and --keep cannot be combined" }
  ],
  backup: [{ args: `backup ${nowhere}`, line: unwritable }],
  restore: [{ args: `restore ${nowhere}`, line: `cannot read ${nowhere}: no such file or directory` }],
  "sessions import": [
    { args: `sessions import ${nowhere}`, line: `cannot read ${nowhere}: no such file or directory` }
  ],
  "sessions export": [
    { args: "sessions export --session-id nope", line: session },
    { args: `sessions export --output ${nowhere}`, line: unwritable }
  ],
  "tools enable": [
    { args: "tools enable nope", line: toolset },
    { args: "tools enable file nope", line: toolset }
  ],
  "tools disable": [{ args: "tools disable nope", line: toolset }],
  "plugins info": [{ args: "plugins info nope", line: plugin }],
  "plugins enable": [{ args: "plugins enable nope", line: plugin }],
  "plugins disable": [{ args: "plugins disable nope", line: plugin }],
  "plugins check": [
    { args: "plugins check nope", line: /^there is no folder .*nope: pass the folder of a plugin, or its name$/ }
  ],
  "plugins test": [
    { args: "plugins test nope", line: /^there is no folder .*nope: pass the folder of a plugin, or its name$/ }
  ],
  "plugins update": [{ args: "plugins update nope", line: plugin }],
  "plugins remove": [{ args: "plugins remove nope", line: plugin }],
  "plugins install": [
    {
      args: "plugins install nope",
      line: '"nope" is not a folder, not an address of a repository (https, ssh, file), and not owner/repo'
    }
  ],
  "plugins new": [
    {
      args: "plugins new No_Name",
      line: '"No_Name" is not a valid plugin name: use lower-case letters, digits and single hyphens, such as my-plugin'
    }
  ],
  "hooks test": [{ args: "hooks test nope", line: /^no hook "nope": one of on_session_start, [^\n]+$/ }],
  "hooks schema": [{ args: "hooks schema nope", line: /^no hook "nope": one of on_session_start, [^\n]+$/ }],
  "hooks revoke": [{ args: "hooks revoke nope", line: unknown("approved hook", "hermes hooks list") }],
  serve: [
    { args: "serve --port 70000", line: '--port "70000" is invalid: expected a number from 0 to 65535' },
    { args: "serve --capture nope", line: '--capture is auto, token_ids, logprobs or none, not "nope"' },
    { args: "serve --on-divergence nope", line: '--on-divergence is refuse or branch, not "nope"' },
    {
      args: "serve --rollouts rollouts --parser nope",
      line: /^unknown tool-call parser "nope": pass one of hermes, qwen, [^\n]+$/
    },
    { args: "serve --parser hermes", line: "--parser needs --rollouts DIR" },
    {
      args: "serve --host 0.0.0.0 --port 0",
      line: "listening on 0.0.0.0 needs a key: set HERMES_SERVER_KEY to a long random text, or leave out --host"
    },
    { args: `serve --script ${nowhere}`, line: `${nowhere}: no such file` }
  ],
  "cluster runner": [{ args: "cluster runner", line: noCluster }],
  "cluster status": [{ args: "cluster status", line: noCluster }],
  "cluster drain": [{ args: "cluster drain", line: noCluster }],
  "cluster answer": [
    { args: "cluster answer", line: "<run> is missing: run `hermes cluster answer --help`" },
    { args: "cluster answer x", line: noCluster }
  ],
  "sessions answer": [
    { args: "sessions answer", line: "<session> is missing: run `hermes sessions answer --help`" },
    { args: "sessions answer s", line: "<question> is missing: run `hermes sessions answer --help`" },
    { args: "sessions answer nope q yes", line: 'no session "nope": list them with `hermes sessions list`' }
  ],
  "tenants usage": [
    { args: "tenants usage --from nope", line: /^--from is a day such as \d{4}-\d\d-\d\d, not "nope"$/ }
  ],
  "tenants remove": [
    { args: "tenants remove", line: "<tenant> is missing: run `hermes tenants remove --help`" },
    { args: "tenants remove nope", line: 'no tenant "nope": list them with `hermes tenants list`' }
  ],
  "cluster cancel": [
    { args: "cluster cancel", line: "<run> is missing: run `hermes cluster cancel --help`" },
    { args: "cluster cancel x", line: noCluster }
  ],
  "cluster steer": [
    { args: "cluster steer", line: "<session> is missing: run `hermes cluster steer --help`" },
    { args: "cluster steer x y", line: noCluster }
  ],
  "cluster failed": [
    { args: "cluster failed --limit 0", line: "--limit 0 is too small: pass 1 or more" },
    { args: "cluster failed", line: noCluster }
  ],
  "cluster retry": [
    { args: "cluster retry", line: "<run> is missing: run `hermes cluster retry --help`" },
    { args: "cluster retry x", line: noCluster }
  ],
  "cluster watch": [
    { args: "cluster watch", line: "<run> is missing: run `hermes cluster watch --help`" },
    { args: "cluster watch x", line: noCluster }
  ],
  "cluster submit": [
    { args: "cluster submit", line: "<prompt> is missing: run `hermes cluster submit --help`" },
    { args: "cluster submit hello", line: noCluster }
  ],
  "permissions test": [{ args: "permissions test", line: "<call> is missing: run `hermes permissions test --help`" }],
  "lab rl rollout": [
    {
      args: "rl rollout nope",
      line: 'There is no environment "nope": `hermes lab rl environments` lists them; a dataset or a module is named by its path'
    },
    { args: "rl rollout arithmetc", line: 'There is no environment "arithmetc": did you mean "arithmetic"?' },
    { args: "rl rollout /nowhere/env.ts", line: "/nowhere/env.ts: there is no such file" },
    { args: "rl rollout arithmetic --groups 0", line: "--groups 0 is too small: pass 1 or more" },
    { args: "rl rollout arithmetic --temperature 3", line: "--temperature is a number from 0 to 2" },
    { args: "rl rollout arithmetic --parser nope", line: /^unknown tool-call parser "nope": pass one of [^\n]+$/ },
    {
      args: "rl rollout arithmetic --distribution nope",
      line: /^--distribution: there is no distribution "nope": [^\n]+$/
    },
    { args: `rl rollout arithmetic --script ${nowhere}`, line: `${nowhere}: no such file` }
  ],
  "lab rl list": [{ args: "rl list --rollouts /nowhere", line: "/nowhere: no such directory" }],
  "lab rl export": [
    { args: "rl export --format nope", line: '--format "nope" is invalid: use groups, episodes or messages' },
    { args: "rl export --rollouts /nowhere", line: "/nowhere: no such directory" }
  ],
  "lab rl train": [
    {
      args: "rl train",
      line: "hermes lab rl train needs a task in quotes, or --interactive: hermes lab rl train 'Train on arithmetic and judge it'"
    },
    { args: "rl train x --interactive", line: "--interactive starts a conversation: leave out the task" },
    { args: "rl train x --max-iterations 0", line: "--max-iterations 0 is too small: pass 1 or more" }
  ],
  "mcp remove": [{ args: "mcp remove nope", line: server }],
  "mcp test": [{ args: "mcp test nope", line: server }],
  "mcp login": [{ args: "mcp login nope", line: server }],
  "mcp logout": [{ args: "mcp logout nope", line: server }],
  "mcp serve": [{ args: "mcp serve --tools nope", line: unknown("tool", "hermes tools") }],
  "cron edit": [{ args: "cron edit nope --name x", line: job }],
  "cron pause": [{ args: "cron pause nope", line: job }],
  "cron resume": [{ args: "cron resume nope", line: job }],
  "cron remove": [{ args: "cron remove nope", line: job }],
  "cron run": [{ args: "cron run nope", line: job }],
  "cron create": [{ args: "cron create nope hi", line: /^"nope" cannot be read: 30m or in 2h \(once\), [^\n]+$/ }],
  "trace convert": [{ args: "trace convert nope", line: session }],
  "trace stats": [{ args: "trace stats nope", line: session }],
  "trace view": [{ args: "trace view nope", line: session }],
  "trace validate": [{ args: "trace validate nope", line: "nope: file not found" }],
  "config get": [
    { args: "config get nope", line: setting },
    { args: "config get agent.max_turn", line: 'no setting "agent.max_turn": did you mean "agent.max_turns"?' },
    { args: "config get modle.defualt", line: 'no setting "modle.defualt": did you mean "model.default"?' }
  ],
  "memory show": [{ args: "memory show nope", line: /nope/ }],
  "memory edit": [
    { args: "memory edit user", line: "stdin is empty, so nothing was changed. To remove all entries, use the editor." }
  ],
  "skills show": [{ args: "skills show nope", line: 'no skill "nope": list them with `hermes skills list`' }],
  "skills check": [{ args: "skills check nope", line: 'no skill "nope": list them with `hermes skills list`' }],
  "skills remove": [{ args: "skills remove nope --yes", line: 'no skill "nope": list them with `hermes skills list`' }],
  "skills install": [
    { args: "skills install nope", line: "Not a terminal. Review the skill, then pass --yes to install it." },
    {
      args: "skills install nope --yes",
      line: /^nope: "nope" is not a folder, not a tarball, and not an address of a repository/
    }
  ],
  "skills accept": [
    { args: "skills accept nope", line: 'no proposal "nope": list them with `hermes skills proposed`' }
  ],
  "skills dismiss": [
    { args: "skills dismiss nope", line: 'no proposal "nope": list them with `hermes skills proposed`' }
  ],
  "memory setup": [
    { args: "memory setup nope", line: 'no external memory "nope": list them with `hermes memory setup`' }
  ],
  "agents check": [{ args: "agents check nope", line: 'no agent "nope": list them with `hermes agents list`' }],
  "trust add": [{ args: "trust add nope", line: /\/nope: cannot be trusted: no such file or directory$/ }],
  "trust remove": [
    { args: "trust remove nope", line: /^no trusted folder ".*\/nope": list them with `hermes trust list`$/ }
  ],
  "lab batch run": [
    {
      args: "batch run",
      line: "--dataset_file PATH, --batch_size N, --run_name NAME are missing: hermes lab batch run --dataset_file=data.jsonl --batch_size=10 --run_name=first"
    },
    {
      args: "batch run --dataset_file=nope.jsonl --batch_size=1 --run_name=a",
      line: "dataset nope.jsonl cannot be read: no such file or directory"
    },
    {
      args: "batch run --dataset_file=nope.jsonl --batch_size=0 --run_name=a",
      line: "--batch-size 0 is too small: pass 1 or more"
    },
    {
      args: "batch run --dataset_file=nope.jsonl --batch_size=1 --run_name=../a",
      line: '--run-name "../a" is not a directory name: use letters, digits, ., - and _'
    },
    {
      args: "batch run --dataset_file=nope.jsonl --batch_size=1 --run_name=a --distribution=mixed_task",
      line: 'there is no distribution "mixed_task": did you mean "mixed_tasks"?'
    }
  ],
  "lab batch stats": [{ args: "batch stats nope", line: /^no batch run "nope"/ }],
  "lab batch merge": [{ args: "batch merge nope", line: /^no batch run "nope"/ }],
  "lab batch check": [
    { args: "batch check", line: "<trajectories> is missing: run `hermes lab batch check --help`" },
    { args: "batch check nope --for trl", line: /^no batch run "nope"/ }
  ],
  "lab batch show": [{ args: "batch show nope 1", line: /^no batch run "nope"/ }],
  "lab batch diff": [{ args: "batch diff nope other", line: /^no batch run "nope"/ }],
  "lab batch compress": [
    { args: "batch compress nope.jsonl --dry-run", line: "nope.jsonl cannot be read: no such file or directory" },
    {
      args: "batch compress nope.jsonl --sample-percent 0",
      line: "--sample-percent 0 is invalid: pass a number above 0, up to 100"
    }
  ],
  "lab batch view": [{ args: "batch view nope", line: /^no batch run "nope"/ }],
  "lab swe run": [
    { args: "swe run", line: "pass the tasks with --prompts-file PATH, or one with --task TEXT" },
    { args: "swe run --prompts_file nope.jsonl", line: "dataset nope.jsonl cannot be read: no such file or directory" },
    { args: "swe run --task x --cwd nope --workers 0", line: "--workers 0 is too small: pass 1 or more" },
    { args: "swe run --task x --env modal", line: /^--env "modal" is invalid: expected [^\n]+$/ }
  ],
  "lab swe evaluate": [
    { args: "swe evaluate", line: "pass the tasks with --prompts-file PATH" },
    {
      args: "swe evaluate --prompts_file nope.jsonl",
      line: "dataset nope.jsonl cannot be read: no such file or directory"
    }
  ],
  "lab eval run": [
    {
      args: "eval run nope.jsonl --scorer exact",
      line: "dataset nope.jsonl cannot be read: no such file or directory"
    },
    { args: "eval run nope.jsonl --scorer exakt", line: 'unknown scorer "exakt": did you mean "exact"?' },
    { args: "eval run nope.jsonl", line: "pass a scorer with --scorer: exact, contains, regex, number, command, judge" }
  ],
  "lab eval show": [
    {
      args: "eval show nope",
      line: /^no results in [^\n]+nope: run `hermes lab eval run` first, or pass another directory$/
    }
  ],
  "lab eval compare": [
    {
      args: "eval compare nope other",
      line: /^no results in [^\n]+nope: run `hermes lab eval run` first, or pass another directory$/
    }
  ],
  "config unset": [
    { args: "config unset nope", line: setting },
    { args: "config unset agent.maxturns", line: 'no setting "agent.maxturns": did you mean "agent.max_turns"?' }
  ],
  "config set": [
    { args: "config set agent.max_turns nope", line: 'agent.max_turns: expected a positive integer, got "nope"' }
  ]
}

/** Commands that take no name and no path. */
const withoutNames = [
  "sessions waiting",
  "tenants",
  "tenants list",
  "acp",
  "model",
  "model list",
  "model profile",
  "model test",
  "model logout",
  "sessions",
  "sessions list",
  "sessions stats",
  "sessions optimize",
  "sessions repair",
  "prompt",
  "prompt size",
  "tools",
  "plugins",
  "plugins list",
  "memory",
  "memory status",
  "memory off",
  "skills proposed",
  "skills",
  "skills list",
  "middleware",
  "agents",
  "agents list",
  "trust",
  "trust list",
  "hooks",
  "hooks list",
  "hooks doctor",
  "mcp",
  "mcp list",
  "mcp add",
  "cron",
  "cron list",
  "cron status",
  "cron tick",
  "cron serve",
  "lab",
  "lab batch",
  "cluster",
  "lab eval",
  "permissions",
  "permissions list",
  "lab swe",
  "trace",
  "trace serve",
  "lab rl",
  "lab rl environments",
  "lab rl check",
  "config",
  "config show",
  "config edit",
  "config check",
  "config path",
  "config env-path",
  "doctor"
]

describe("input that cannot be used", () => {
  it.effect("has a case for every command of the program", () =>
    Effect.gen(function* () {
      const commands = commandsOf(yield* makeRootCommand(commandNames), "")
      assert.deepStrictEqual(commands.toSorted(), [...Object.keys(mistakes), ...withoutNames].toSorted())
    })
  )

  for (const { args, line } of Object.values(mistakes).flat()) {
    it.live(`hermes ${args}`, () =>
      Effect.gen(function* () {
        const { hermes, home, start } = yield* machine
        // One that reads the standard input needs its own.
        const { code, stderr, stdout } = yield* (args.startsWith("memory edit") ? start : hermes)(args.split(" "))
        const told = /^Error: ([^\n]+)\n$/.exec(stderr)?.[1]
        assert.deepStrictEqual({ code, stdout }, { code: 2, stdout: "" }, stderr)
        if (typeof line === "string") assert.strictEqual(told, line, stderr)
        else assert.match(told ?? stderr, line)
        assert.isFalse(existsSync(`${home}/config.yaml`))
      })
    )
  }

  it.live("a file of settings that is no YAML is one line and code 2, whatever the command", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      keep("config.yaml", "agent:\n  max_turns: 5\n   x: 6\n")
      for (const args of [
        "-q hi",
        "chat -q hi",
        "config show",
        "config check",
        "config get model.default",
        "tools",
        "model list",
        "plugins list",
        "hooks list",
        "mcp list",
        "mcp test a"
      ]) {
        const { code, stderr, stdout } = yield* hermes(args.split(" "))
        assert.deepInclude({ code, stdout }, { code: 2, stdout: "" }, args)
        assert.match(
          stderr,
          /^Error: config\.yaml: line 3, column 5: a colon in the value: put the value into quotes\n$/,
          args
        )
      }
    })
  )

  it("chooses its exit code in one place", () => {
    const directory = new URL("../../../src/program/cli", import.meta.url)
    const made = readdirSync(directory, { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".ts") && file !== "Failure.ts")
      .filter((file) =>
        readFileSync(new URL(`program/cli/${file}`, new URL("../../../src/", import.meta.url)), "utf8").includes(
          "new Failure("
        )
      )
    assert.deepStrictEqual(made, [])
  })
})
