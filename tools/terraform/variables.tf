variable "name" {
  description = "Name of the CloudFormation stack."
  type        = string
  default     = "version-control"
}

variable "archive" {
  description = "Folder of an unpacked release archive, version-control-…, version-control-attach-… or version-control-seal-…."
  type        = string
}

variable "bucket" {
  description = "Existing bucket for the functions' code and the template, in the Region of the stack."
  type        = string
}

variable "parameters" {
  description = "Parameters of the template by name, such as { VersionDigits = 10 }. An unknown name is an error."
  type        = map(string)
  default     = {}
}

variable "tags" {
  description = "Tags of the stack and its resources."
  type        = map(string)
  default     = {}
}
