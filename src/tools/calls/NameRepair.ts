/**
 * Finds the tool that a model meant by an unknown name: different case, different separators, a trailing `tool`, or a
 * typing error in one word. It does not ask a model.
 *
 * **Details**
 *
 * Case and separators are repaired for every tool if exactly one tool has that spelling. A name of the form
 * `mcp__server__tool` matches only tools of that server.
 *
 * A typing error is repaired in the tool's own part of the name, without `mcp__server__`, and only when
 *
 * - exactly one tool can be meant;
 * - that tool is not destructive;
 * - the words are equal except one, which is a plural or a misspelling of its counterpart. A word that is a verb, or
 *   that occurs in the name of an offered tool, is not a misspelling of another word.
 *
 * Source: `hermes-llm.md` §13.2, changed by `ARCHITECTURE.md` §7 (name repair).
 */
import { ratio } from "../../base/domain/Similarity.ts"

/** Minimum similarity of a name that counts as a typing error of another name. */
const cutoff = 0.7

/** Verbs that name the action of a tool. One verb never replaces another. */
const verbs: ReadonlySet<string> = new Set(
  `abort accept access acknowledge act activate add adjust adopt advance aggregate alert allocate allow amend analyse
analyze announce answer append apply approve archive ask assert assess assign associate attach audit authenticate
authorise authorize await backup ban batch begin bind block book boot bounce branch broadcast browse build bulk bump
bury buy calculate call cancel capture cast cat change charge check cherry choose claim clarify classify clean cleanup
clear click clone close collapse collect combine compact compare compile complete compose compress compute concat
configure confirm connect consume convene convert copy count crawl create crop customize cut deactivate debug decide
decline decode decommission decompress decrease decrypt deduct define delay delegate delete demote deny deploy deprecate
dequeue derive describe deselect destroy detach detect develop diff disable disapprove disconnect discover dismiss
dispatch display dissociate distribute divide do download draft drag drain draw drop dump duplicate edit eject emit
empty enable encode encrypt end enlarge enqueue enroll ensure enter enumerate erase escalate estimate eval evaluate
evict exclude exec execute exit expand expire explain explore export extend extract fail favorite fetch fill filter
finalize find finish fire fix flag flip flush focus fold follow forbid force forecast forget fork format forward freeze
generate get give go grant grep grow halt handle hide hold hover ignore import include increase increment index inform
ingest inherit init initialise initialize inject insert inspect install instantiate integrate interrupt introspect
invalidate invite invoke join jump keep kick kill launch learn leave like limit link lint list listen load localize
locate lock log login logout look lookup ls mail make manage map mark mask match measure mention merge migrate minimize
mint mirror mix mkdir modify monitor mount move mutate mute mv navigate negate normalise normalize notify obtain omit
open optimise optimize order override overwrite own pack park parse partition paste patch pause pay peek perform permit
persist pick pin ping place plan play plot poll pop populate post prepare prepend press preview print process produce
profile promote prompt propose protect provision prune publish pull purchase purge push put query queue quit quote raise
rank rate react read reassign rebase reboot rebuild recalculate receive recommend reconcile reconnect record recover
recreate redeem redeploy redirect redo reduce refactor refine refresh refund refuse regenerate register reindex
reinstall reject relate release reload relocate remember remind remove rename render renew reopen reorder repair repeat
replace replay reply report reprocess request require rerun reschedule reserve reset resize resolve respond restart
restore restrict resume retain retire retract retrieve retry return revert review revise revoke rewind rewrite ring rm
rmdir rollback rotate route run sample sanitize save scale scan schedule score scrape screenshot scroll search seed seek
select sell send serve set settle share shift show shred shrink shuffle shut shutdown sign signal simulate skip sleep
snapshot snooze solve sort spawn speak spend split squash stage star start stash stat stop store stream strip submit
subscribe subtract suggest summarise summarize suspend swap switch sync synchronise synchronize tail take tap teach tell
terminate test text think throttle toggle touch trace track train transcribe transfer transform transition translate
transmit trash tree trigger trim truncate try tune turn type unarchive unassign unban unbind unblock undelete undeploy
undo undraft unfollow unfork unfreeze unhide uninstall unlike unlink unload unlock unmark unmerge unmount unmute unpack
unpark unpause unpin unpublish unregister unschedule unset unshare unsnooze unstage unstar unstash unsubscribe unsuspend
untag unwatch unzip update upgrade upload upsert use vacuum validate verify view visit vote wait wake walk warn watch
whitelist wipe withdraw wrap write zip zoom`.split(/\s+/)
)

const isVerb = (word: string): boolean => verbs.has(word)

/** Maximum length of a name that is compared. */
const longestName = 128

/** A tool that may be meant. */
export interface Candidate {
  readonly name: string
  readonly destructive: boolean
}

/** The parts of a name; `server` is `undefined` for a tool that does not belong to an MCP server. */
interface Parts {
  readonly server: string | undefined
  readonly own: string
}

const splitName = (name: string): Parts => {
  const mcp = /^mcp__(.+?)__(.+)$/i.exec(name)
  return mcp === null ? { server: undefined, own: name } : { server: toKey(mcp[1] ?? ""), own: mcp[2] ?? "" }
}

/** The name without case and separators. */
const toKey = (name: string): string => name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, "")

/** Returns the key of a name, and the key without one or two trailing `tool` words, which models add. */
const listSpellings = (name: string): ReadonlyArray<string> => {
  const out = [toKey(name)]
  for (let round = 0; round < 2; round++) {
    const last = out.at(-1) ?? ""
    if (last.endsWith("tool") && last.length > "tool".length) out.push(last.slice(0, -"tool".length))
  }
  return out
}

/** Splits a name into words in lower case: `getHTTPFile-list` becomes get, http, file, list. */
const splitWords = (name: string): ReadonlyArray<string> =>
  name
    .replaceAll(/([\p{Ll}\p{N}])(\p{Lu})/gu, "$1 $2")
    .replaceAll(/(\p{Lu}+)(\p{Lu}\p{Ll})/gu, "$1 $2")
    .toLowerCase()
    .match(/[\p{L}\p{N}]+/gu) ?? []

/** A tool with the forms of its name that are compared. */
interface ToolForms {
  readonly candidate: Candidate
  readonly server: string | undefined
  readonly own: string
  readonly words: ReadonlyArray<string>
  /** Keys of the whole name, of the server with the tool's own part, and of the own part. */
  readonly keys: { readonly whole: string; readonly served: string | undefined; readonly own: string }
}

const toToolForms = (candidate: Candidate): ToolForms => {
  const { own, server } = splitName(candidate.name)
  const key = toKey(own)
  return {
    candidate,
    server,
    own: own.toLowerCase(),
    words: splitWords(own),
    keys: { whole: toKey(candidate.name), served: server === undefined ? undefined : server + key, own: key }
  }
}

/** Returns the only element of a list; `undefined` unless there is exactly one. */
const takeOnly = <A>(found: ReadonlyArray<A>): A | undefined => (found.length === 1 ? found[0] : undefined)

/**
 * Finds the tool with the same name in a different spelling. A name with a server matches only tools of that server.
 */
const findRespelled = (asked: string, tools: ReadonlyArray<ToolForms>): ToolForms | undefined => {
  const { own, server } = splitName(asked)
  for (const spelling of listSpellings(server === undefined ? asked : own)) {
    const found = tools.filter((tool) =>
      server === undefined
        ? tool.keys.whole === spelling || tool.keys.served === spelling
        : tool.server === server && tool.keys.own === spelling
    )
    if (found.length > 0) return takeOnly(found)
  }
  return undefined
}

const listPlurals = (word: string): ReadonlyArray<string> => [`${word}s`, `${word}es`, word.replace(/y$/, "ies")]

/**
 * Returns true if two words differ by one added, missing or transposed letter; in a long word also by one replaced
 * letter.
 */
const isOneSlip = (a: string, b: string): boolean => {
  if (a[0] !== b[0] || Math.max(a.length, b.length) < 4) return false
  const [short, long] = a.length <= b.length ? [a, b] : [b, a]
  let from = 0
  while (from < short.length && short[from] === long[from]) from++
  if (short.length === long.length) {
    if (short[from] === long[from + 1] && short[from + 1] === long[from])
      return short.slice(from + 2) === long.slice(from + 2)
    return short.length >= 6 && short.slice(from + 1) === long.slice(from + 1)
  }
  return long.length === short.length + 1 && short.slice(from) === long.slice(from + 1)
}

/** Returns true if a word is a typing error of another. A known word with another meaning is not. */
const isMisspelled = (asked: string, meant: string, vocabulary: ReadonlySet<string>): boolean => {
  if (isVerb(asked)) return false
  if (listPlurals(asked).includes(meant) || listPlurals(meant).includes(asked)) return !isVerb(meant)
  return !vocabulary.has(asked) && isOneSlip(asked, meant)
}

const isMistyped = (
  asked: ReadonlyArray<string>,
  meant: ReadonlyArray<string>,
  vocabulary: ReadonlySet<string>
): boolean => {
  if (asked.length !== meant.length) return false
  let slips = 0
  for (const [index, word] of asked.entries()) {
    const other = meant[index] ?? ""
    if (word === other) continue
    // An unknown first word may be a verb, and so may the only word.
    if (++slips > 1 || !isMisspelled(word, other, vocabulary) || (index === 0 && !isVerb(other))) return false
  }
  return true
}

/** Finds the tool whose own part of the name was mistyped. */
const findMistyped = (
  asked: string,
  tools: ReadonlyArray<ToolForms>,
  vocabulary: ReadonlySet<string>
): ToolForms | undefined => {
  const { own, server } = splitName(asked)
  const words = splitWords(own)
  const found = takeOnly(
    tools.filter(
      (tool) =>
        (server === undefined || tool.server === server) &&
        isMistyped(words, tool.words, vocabulary) &&
        ratio(own.toLowerCase(), tool.own) >= cutoff
    )
  )
  return found?.candidate.destructive === true ? undefined : found
}

/** Creates a function that finds the tool meant by a name, or `undefined`. */
export const makeNameFinder = (tools: ReadonlyArray<Candidate>): ((name: string) => string | undefined) => {
  const all = tools.map(toToolForms)
  const vocabulary = new Set(all.flatMap(({ words }) => words))
  return (name) => {
    const asked = name.trim()
    if (asked === "" || asked.length > longestName || toKey(asked) === "") return undefined
    return (findRespelled(asked, all) ?? findMistyped(asked, all, vocabulary))?.candidate.name
  }
}
