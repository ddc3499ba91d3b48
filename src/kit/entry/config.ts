/** Agent files, and trust in the folders that contain them. */
export * as AgentFile from "../../base/config/AgentFile.ts"
export * as FolderTrust from "../../base/config/FolderTrust.ts"
