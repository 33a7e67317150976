"""Summaries of conversations: which messages to condense, by a rule or by a model."""

from hivemem_runtime.summaries.middle import middle
from hivemem_runtime.summaries.model import Summarizer, SummaryModel, SummaryText
from hivemem_runtime.summaries.rule import rule_summary

__all__ = ["Summarizer", "SummaryModel", "SummaryText", "middle", "rule_summary"]
