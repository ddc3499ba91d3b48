// Names that models get wrong, over the tool lists of servers that many people use: whose tool runs, and that it is
// never one that does something else.
import { assert, describe, it } from "@effect/vitest"
import * as NameRepair from "../../src/tools/calls/NameRepair.ts"

const github =
  `add_comment_to_pending_review add_issue_comment assign_copilot_to_issue cancel_workflow_run create_and_submit_review
create_branch create_gist create_issue create_or_update_file create_pending_pull_request_review create_pull_request create_repository
delete_file delete_pending_pull_request_review delete_workflow_run_logs dismiss_notification download_workflow_run_artifact
fork_repository get_code_scanning_alert get_commit get_dependabot_alert get_discussion get_discussion_comments get_file_contents
get_issue get_issue_comments get_job_logs get_me get_notification_details get_pull_request get_pull_request_comments
get_pull_request_diff get_pull_request_files get_pull_request_reviews get_pull_request_status get_secret_scanning_alert get_tag
get_workflow_run get_workflow_run_logs get_workflow_run_usage list_branches list_code_scanning_alerts list_commits
list_dependabot_alerts list_discussion_categories list_discussions list_gists list_issues list_notifications list_pull_requests
list_secret_scanning_alerts list_tags list_workflow_jobs list_workflow_run_artifacts list_workflow_runs list_workflows
manage_notification_subscription mark_all_notifications_read merge_pull_request push_files request_copilot_review
rerun_failed_jobs rerun_workflow_run run_workflow search_code search_issues search_orgs search_pull_requests search_repositories
search_users star_repository submit_pending_pull_request_review unstar_repository update_gist update_issue update_pull_request
update_pull_request_branch`.split(/\s+/)

const slack =
  `conversations_add_message conversations_history conversations_replies conversations_search_messages channels_list
slack_add_reaction slack_get_channel_history slack_get_thread_replies slack_get_user_profile slack_get_users slack_list_channels
slack_post_message slack_reply_to_thread slack_remove_reaction slack_archive_channel slack_unarchive_channel slack_join_channel
slack_leave_channel slack_invite_user slack_kick_user slack_pin_message slack_unpin_message`.split(/\s+/)

const filesystem =
  `read_file read_text_file read_media_file read_multiple_files write_file edit_file create_directory list_directory
list_directory_with_sizes directory_tree move_file search_files get_file_info list_allowed_directories delete_file copy_file`.split(
    /\s+/
  )

const other =
  `getFile setFile deleteFile openTab closeTab cloneTab lockDoor unlockDoor startTimer stopTimer muteUser unmuteUser
enableRule disableRule attach_volume detach_volume mask_value mark_value import_data export_data browser_click browser_close`.split(
    /\s+/
  )

const named = (server: string, names: ReadonlyArray<string>) => names.map((name) => `mcp__${server}__${name}`)

const servers = {
  github: named("github", github),
  slack: named("slack", slack),
  fs: named("fs", filesystem),
  misc: named("misc", other)
}
const everything = [...filesystem, ...other, ...Object.values(servers).flat()]

const harmless = (names: ReadonlyArray<string>): ReadonlyArray<NameRepair.Candidate> =>
  names.map((name) => ({ name, destructive: false }))
const destructive = (names: ReadonlyArray<string>): ReadonlyArray<NameRepair.Candidate> =>
  names.map((name) => ({ name, destructive: true }))

const repair = (name: string, tools: ReadonlyArray<NameRepair.Candidate>) => NameRepair.makeNameFinder(tools)(name)

const own = (name: string): string => name.replace(/^mcp__.+?__/, "")

const words = (name: string): ReadonlyArray<string> =>
  own(name)
    .replaceAll(/([a-z0-9])([A-Z])/g, "$1_$2")
    .toLowerCase()
    .split("_")

const doing =
  `add get set list create read write edit update delete remove merge close clone open search push pull fork star unstar
star archive unarchive join leave invite kick pin unpin post reply move copy cancel rerun run download dismiss mark mask submit
manage request assign lock unlock start stop mute unmute enable disable attach detach import export click`.split(/\s+/)

const flat = (text: string): string => text.toLowerCase().replaceAll("_", "")

/** What a name says that its tool does. */
const verbs = (name: string): string =>
  words(name)
    .filter((word) => doing.includes(word))
    .join(" ")

/** Every name with one letter left out, doubled, changed or exchanged with the next. */
const slips = (name: string): ReadonlyArray<string> =>
  Array.from(name).flatMap((letter, at) => [
    name.slice(0, at) + name.slice(at + 1),
    name.slice(0, at) + letter + name.slice(at),
    `${name.slice(0, at)}q${name.slice(at + 1)}`,
    name.slice(0, at) + (name[at + 1] ?? "") + letter + name.slice(at + 2)
  ])

const all = NameRepair.makeNameFinder(harmless(everything))

describe("names of MCP tools", () => {
  it("the ones that ran another tool: none is taken", () => {
    const cases: ReadonlyArray<readonly [asked: string, names: ReadonlyArray<string>]> = [
      ["merge_pull_request", ["get_pull_request"]],
      ["list_secrets", ["list_issues"]],
      ["create_file", ["read_file"]],
      ["delete_file", ["get_file"]],
      ["close_tab", ["clone_tab"]],
      ["unlock_door", ["lock_door"]],
      ["set_file", ["get_file"]]
    ]
    for (const [asked, names] of cases) {
      assert.strictEqual(repair(`mcp__a__${asked}`, harmless(named("a", names))), undefined, asked)
      assert.strictEqual(repair(asked, harmless(names)), undefined, asked)
    }
  })

  it("a tool that is not there is never another one, whichever is missing", () => {
    const wrong = everything.filter((missing) => {
      const rest = everything.filter((name) => own(name) !== own(missing))
      const meant = repair(missing, harmless(rest))
      // A plural is the one difference that is no other tool's name.
      return meant !== undefined && flat(own(meant)).replace(/s$/, "") !== flat(own(missing)).replace(/s$/, "")
    })
    assert.deepStrictEqual(wrong, [])
  })

  it("a verb of one list with the rest of another name runs nothing else", () => {
    const wrong = everything.flatMap((name) => {
      const [first = "", ...rest] = words(name)
      const prefix = name.slice(0, name.length - own(name).length)
      return doing
        .filter((verb) => verb !== first)
        .flatMap((verb) => {
          const asked = prefix + [verb, ...rest].join("_")
          const meant = all(asked)
          return meant === undefined || verbs(meant) === verbs(asked) ? [] : [`${asked} → ${meant}`]
        })
    })
    assert.deepStrictEqual(wrong, [])
  })

  it("a slip of a finger never changes the verb or the server, and never lands on a destructive tool", () => {
    for (const [server, names] of Object.entries(servers)) {
      const guarded = NameRepair.makeNameFinder(destructive(names))
      for (const name of names) {
        for (const slip of slips(own(name))) {
          const meant = all(`mcp__${server}__${slip}`)
          if (meant !== undefined) {
            assert.isTrue(meant.startsWith(`mcp__${server}__`), `${slip} → ${meant}`)
            assert.strictEqual(verbs(meant), verbs(name), `${name}: ${slip} → ${meant}`)
          }
          const dangerous = guarded(`mcp__${server}__${slip}`)
          if (dangerous !== undefined)
            assert.strictEqual(flat(dangerous), flat(`mcp__${server}__${slip}`).replace(/(?:tool)+$/, ""), slip)
        }
      }
    }
  })

  it("case and separators are repaired for every tool, destructive ones too", () => {
    const guarded = NameRepair.makeNameFinder(destructive(Object.values(servers).flat()))
    for (const [server, names] of Object.entries(servers)) {
      for (const name of names) {
        const camel = own(name).replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
        for (const asked of [
          name.toUpperCase(),
          `mcp__${server}__${camel}`,
          `mcp__${server}__${own(name).replaceAll("_", "-")}`,
          name.replaceAll("__", "_"),
          name.replaceAll("_", "-"),
          `${server}.${own(name)}`,
          `${server}__${own(name)}`,
          `${name}_tool`
        ]) {
          assert.strictEqual(guarded(asked), name, asked)
        }
      }
    }
  })

  it("the own part alone means the one tool that has it; with two of them, or a destructive one, nothing is taken", () => {
    assert.strictEqual(repair("get_issue", harmless(servers.github)), "mcp__github__get_issue")
    assert.strictEqual(repair("get_issue", harmless([...servers.github, "mcp__linear__get_issue"])), undefined)
    assert.strictEqual(repair("get_issue", destructive(servers.github)), undefined)
    assert.strictEqual(repair("mcp__linear__get_issue", harmless(servers.github)), undefined, "another server's")
    assert.strictEqual(repair("mcp__fs__read_file", harmless(["read_file"])), undefined)
  })

  it("slips that are repaired", () => {
    const cases = [
      ["mcp__github__get_isue", "mcp__github__get_issue"],
      ["mcp__github__list_issue", "mcp__github__list_issues"],
      ["mcp__github__serch_repositories", "mcp__github__search_repositories"],
      ["mcp__github__merge_pull_reqeust", "mcp__github__merge_pull_request"],
      ["mcp__fs__list_direcory", "mcp__fs__list_directory"]
    ] as const
    for (const [asked, meant] of cases) assert.strictEqual(all(asked), meant, asked)
  })

  it("two tools that are equally near are none", () => {
    assert.strictEqual(
      repair("get_files_inf", harmless(["get_file_info", "get_files_info", "get_files_infos"])),
      "get_files_info"
    )
    assert.strictEqual(repair("list_branchs", harmless(["list_branches", "list_branchss"])), undefined)
    assert.strictEqual(repair("readfile", harmless(["read_file", "readFile"])), undefined)
  })
})
