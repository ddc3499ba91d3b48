import { BaseSequencer, type TestSpecification } from "vitest/node"

/**
 * Small files of tests that take long: programs, servers and kills. Without results of an earlier run, large files come
 * first, and these would run at the end, while other workers have nothing left to do.
 */
const longFiles =
  /\/(?:Cluster\w*|SharedSession|TurnChain|Inbox|\w*Kill\w*|KilledBatch|LongSession|Chaos|ServerLoad|Suspended|HiddenKeys|AcpCommand|McpServers|StoreSetting|Backup|Tenant(?:Processes|Leases|Removal\w*|Ledger)|Examples|Scratchpad|Library|Docs|Deployment|Imports|interactive\.pty\.?\w*|SkillStore|SpanEncoding|(?:ContextFit|Endless)\.wire)\.test\.ts$/

/** Starts files with a process of their own, then long files, then all others: large ones first, or by their last run. */
export class LongFilesFirst extends BaseSequencer {
  override async sort(files: Array<TestSpecification>): Promise<Array<TestSpecification>> {
    const rank = ({ moduleId, project }: TestSpecification): number =>
      // A change between projects ends the process that others share.
      project.config.isolate ? 0 : longFiles.test(moduleId) ? 1 : 2
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b))
  }
}
